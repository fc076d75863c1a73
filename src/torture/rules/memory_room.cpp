#include "torture/rules/memory_room.hpp"

#include <fmt/core.h>

#include <utility>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {
namespace {

// Ways to give each stage to one peer that are tried in order to judge an end.
constexpr std::int64_t kMostDeals = 2'000'000;

}  // namespace

bool lacked_memory(const Status& status) {
  return status.message().rfind("too little memory: ", 0) == 0;
}

MemoryRoom::MemoryRoom(const MemoryNeeds& needs, Budgets stated, const View& first)
    : needs_(needs), stated_(std::move(stated)) {
  for (const auto& [peer, stages] : first.members()) held_[peer] = stages;
}

std::string MemoryRoom::published(const View& view) const {
  if (!needs_.known()) return "";
  for (const auto& [peer, stages] : view.members()) {
    const auto stated = stated_.find(peer);
    const auto budget = view.budgets().find(peer);
    const bool bounded = budget != view.budgets().end();
    if (stated != stated_.end() && (!bounded || budget->second > stated->second)) {
      return fmt::format("a view has the budgets that peers have stated: peer {} may take {} bytes",
                         peer.value, stated->second);
    }
    if (!bounded) continue;
    const auto learns = view.learners().find(peer);
    const std::int64_t least = least_bytes(
        needs_, stages, learns == view.learners().end() ? std::set<StageId>() : learns->second);
    if (least > budget->second) {
      return fmt::format(
          "nobody is given more than it has room for: peer {} may take {} bytes, "
          "its stages take {}",
          peer.value, budget->second, least);
    }
  }
  return "";
}

std::string MemoryRoom::allocates(PeerId peer, StageId stage, bool learns) {
  std::set<StageId>& held = held_[peer];
  held.insert(stage);
  const auto stated = stated_.find(peer);
  if (!needs_.known() || stated == stated_.end()) return "";
  std::set<StageId> others = held;
  others.erase(stage);
  const std::int64_t least =
      learns ? least_bytes(needs_, others, {stage}) : least_bytes(needs_, held, {});
  if (least <= stated->second) return "";
  return fmt::format(
      "what is left is freed before anything is taken: with stage {} this peer "
      "holds {} bytes of {}",
      stage.value, least, stated->second);
}

std::string MemoryRoom::ends(const Status& status, const View& view,
                             const std::set<PeerId>& living) const {
  if (!lacked_memory(status) || somebody_refused_) return "";
  if (!needs_.known()) return "nobody knows what memory is needed: " + status.message();
  const std::vector<PeerId> peers(living.begin(), living.end());
  const std::size_t stages = needs_.stages.size();
  std::int64_t deals = 1;
  for (std::size_t s = 0; s < stages; ++s) {
    deals *= static_cast<std::int64_t>(peers.size());
    if (deals > kMostDeals) return "";
  }
  for (std::int64_t deal = 0; deal < deals; ++deal) {
    std::map<PeerId, std::set<StageId>> dealt;
    std::int64_t left = deal;
    for (std::size_t s = 0; s < stages; ++s, left /= static_cast<std::int64_t>(peers.size())) {
      const auto to = static_cast<std::size_t>(left % static_cast<std::int64_t>(peers.size()));
      dealt[peers[to]].insert(StageId(static_cast<std::int32_t>(s)));
    }
    bool fits = true;
    for (const auto& [peer, served] : dealt) {
      const auto budget = view.budgets().find(peer);
      fits = fits &&
             (budget == view.budgets().end() || least_bytes(needs_, served, {}) <= budget->second);
    }
    if (!fits) continue;
    std::string text;
    for (const auto& [peer, served] : dealt) {
      text += fmt::format(" peer {}:", peer.value);
      for (const StageId stage : served) text += fmt::format(" {}", stage.value);
    }
    return "a run ends for its memory only where no deal fits; this one does:" + text;
  }
  return "";
}

}  // namespace swarmpi
