#include "torture/rules/known_views.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace swarmpi {

KnownViews::KnownViews(ViewRef first) : first_(std::move(first)) {
  for (const auto& [peer, stages] : first_->members()) {
    views_[peer] = first_;
    for (const StageId stage : stages) has_stage_.insert({peer, stage});
  }
}

void KnownViews::adopts(PeerId peer, const ViewRef& view) {
  ViewRef& known = views_.try_emplace(peer, no_view()).first->second;
  if (view->number <= known->number) return;
  known = view;
  for (const auto* roles : {&view->members(), &view->learners()}) {
    const auto own = roles->find(peer);
    if (own == roles->end()) continue;
    for (const StageId stage : own->second) has_stage_.insert({peer, stage});
  }
}

std::string KnownViews::sends(PeerId leader, PeerId to, const ViewRef& view, bool to_ended) {
  if (view->number > newest_->number) newest_ = view;
  adopts(leader, view);
  if (!all_exit_ && !to_ended) sent_[{leader, to}] = view->number;
  const Term term = view->number.term;
  const auto created = leaders_.find(term);
  if (created != leaders_.end() && created->second == leader) return "";
  return fmt::format("a leader has a term of its own: it has not created term {}", term.value);
}

bool KnownViews::known_to_others(PeerId peer, const Population& population) const {
  return std::any_of(views_.begin(), views_.end(), [&](const auto& known) {
    const auto& [other, view] = known;
    return other != peer && population.goes_on(other) && view->contains(peer);
  });
}

std::optional<PeerId> KnownViews::newcomer_that_led_last() const {
  if (leaders_.empty() || first_->contains(leaders_.rbegin()->second)) return std::nullopt;
  return leaders_.rbegin()->second;
}

std::string KnownViews::undelivered(const Population& population) const {
  for (const auto& [pair, number] : sent_) {
    const auto& [from, to] = pair;
    if (from == to || !population.lives(from) || !population.lives(to)) continue;
    if (unreachable_.contains(to) || population.is_outsider(to)) continue;
    const auto& ended = population.ended();
    if (is_cut_off(ended.at(from)) || is_cut_off(ended.at(to))) continue;
    if (has_left_the_silent(ended.at(from))) continue;
    if (views_.at(to)->number >= number) continue;
    return fmt::format("peer {} has not received the last view of peer {}", to.value, from.value);
  }
  return "";
}

}  // namespace swarmpi
