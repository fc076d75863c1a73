#include "torture/rules/static_pipelines.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/overloaded.hpp"
#include "protocol/messages/all_jobs.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/views.hpp"
#include "protocol/method/layout.hpp"
#include "simulation/event_trace.hpp"

namespace swarmpi {
namespace {

constexpr StageId kFirst(0);

bool same_roles(const View& one, const View& other) { return one.members() == other.members(); }

bool trains(const WorkId& work) { return work.microbatch.purpose == Purpose::train; }

}  // namespace

StaticPipelines::StaticPipelines(const RunPlan& plan, ViewRef first, Incarnation incarnation)
    : plan_(plan),
      first_incarnation_(incarnation),
      first_pipelines_(static_cast<std::int64_t>(first->replicas(kFirst).size())),
      first_(std::move(first)) {}

// ---- Views and messages

std::string StaticPipelines::sends(PeerId peer, const Send& send, Step committed) {
  if (!plan_.swarm.has_pipelines()) return "";
  const Message& message = send.message;
  const PeerState& state = peers_[peer];
  constexpr const char* kNoRepair = "static pipelines repair nothing, and nobody learns in them";
  return visit(
      Overloaded{
          [&](const ViewMessage& m) { return publishes(m, message.incarnation, committed); },
          [&](const TableMessage&) {
            enter(peer, message);
            return std::string();
          },
          [&](const IssueMessage& m) {
            const ViewRef dealt = dealt_by(peer, message);
            const std::string wrong = check_decision(dealt, message);
            return wrong.empty()
                       ? check_way(dealt, send.to, {m.microbatch, kFirst}, m.path != nullptr)
                       : wrong;
          },
          [&](const SealMessage&) { return check_decision(dealt_by(peer, message), message); },
          [&](const ForwardMessage& m) {
            return check_way(state.dealt, send.to, m.work, m.path != nullptr);
          },
          [&](const ResendMessage&) { return std::string(kNoRepair); },
          [&](const RedirectMessage&) { return std::string(kNoRepair); },
          [&](const ReopenMessage&) { return std::string(kNoRepair); },
          [&](const FetchMessage&) { return std::string(kNoRepair); },
          [](const auto&) { return std::string(); },
      },
      message.body);
}

void StaticPipelines::enter(PeerId peer, const Message& message) {
  PeerState& state = peers_[peer];
  const auto view = views_.find(message.view);
  if (view == views_.end()) return;
  if (state.has_view && message.incarnation <= state.incarnation) return;
  const bool restarts = state.has_view || message.incarnation > first_incarnation_;
  state = PeerState();
  state.incarnation = message.incarnation;
  state.has_view = true;
  state.job_is_old = restarts;
  const bool begins =
      message.incarnation == first_incarnation_ && same_roles(*view->second, *first_);
  if (begins || deals_.contains(message.view)) state.dealt = view->second;
}

// A leader's own host may come to a view after it has published the view.
ViewRef StaticPipelines::dealt_by(PeerId leader, const Message& message) const {
  const auto dealt = dealt_in_.find(message.view.term);
  if (dealt != dealt_in_.end()) return dealt->second;
  const auto state = peers_.find(leader);
  const bool here = state != peers_.end() && state->second.incarnation == message.incarnation;
  return here ? state->second.dealt : nullptr;
}

std::string StaticPipelines::publishes(const ViewMessage& message, Incarnation incarnation,
                                       Step committed) {
  const View& view = *message.view;
  if (!views_.emplace(view.number, message.view).second) return "";
  if (!view.learners().empty() || !view.leaving().empty() || view.move()) {
    return "nobody learns, leaves or moves between the stages of static pipelines";
  }
  // Of a leader whose term lies between, and who published nothing, nobody knows whom it lost.
  const Term newest = incarnation_.empty() ? view.number.term : incarnation_.rbegin()->first;
  if (view.number.term > newest.next()) lost_somebody();
  const auto [last, first_of_term] = incarnation_.try_emplace(view.number.term, incarnation);
  const bool deals = std::exchange(last->second, incarnation) < incarnation;
  const bool begins = first_of_term && incarnation == first_incarnation_;
  if (deals || (begins && same_roles(view, *first_))) dealt_in_[view.number.term] = message.view;
  if (deals) {
    deals_.insert(view.number);
    const Step from(message.restart ? message.restart->state.step : -1);
    const bool nobody_is_lost = std::exchange(nobody_is_lost_, true);
    if (nobody_is_lost && !two_may_lead_ && from < committed) {
      return fmt::format(
          "who leaves a pipeline costs nothing: all go on from step {}, and step {} "
          "is committed",
          from.value, committed.value);
    }
    return check_deal(view);
  }
  const auto dealt = dealt_in_.find(view.number.term);
  return dealt == dealt_in_.end() ? "" : check_roles(view, *dealt->second);
}

std::string StaticPipelines::check_deal(const View& view) const {
  std::int64_t staying = 0;
  for (const auto& [peer, stages] : view.members()) staying += may_leave_.contains(peer) ? 0 : 1;
  const std::int64_t least = std::min(first_pipelines_, staying / plan_.stages());
  const std::size_t pipelines = view.replicas(kFirst).size();
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    if (view.replicas(StageId(s)).size() == pipelines) continue;
    return fmt::format("a pipeline has one peer in each stage: {} serve stage {}, {} stage 0",
                       view.replicas(StageId(s)).size(), s, pipelines);
  }
  if (static_cast<std::int64_t>(pipelines) >= std::max<std::int64_t>(least, 1)) return "";
  return fmt::format("there are as many pipelines as peers can form: {} of {} stages, for {} peers",
                     pipelines, plan_.stages(), staying);
}

std::string StaticPipelines::check_roles(const View& view, const View& dealt) const {
  for (const auto& [peer, stages] : view.members()) {
    const auto was = dealt.members().find(peer);
    if (was == dealt.members().end() ? stages.empty() : stages == was->second) continue;
    return fmt::format("roles change only when all go back: that of peer {}", peer.value);
  }
  return "";
}

std::string StaticPipelines::check_decision(const ViewRef& dealt, const Message& message) const {
  const auto view = views_.find(message.view);
  if (!dealt || view == views_.end()) return "";
  for (const auto& [peer, stages] : dealt->members()) {
    if (stages.empty() || view->second->contains(peer)) continue;
    return fmt::format(
        "the death of a peer in a pipeline is answered by going back: peer {} is gone, and there "
        "is new work or a seal",
        peer.value);
  }
  return "";
}

std::string StaticPipelines::check_way(const ViewRef& dealt, PeerId to, const WorkId& work,
                                       bool has_path) {
  if (has_path) return "static pipelines repair nothing: a microbatch is sent along a path";
  if (!dealt) return "";
  const auto& peers = dealt->replicas(work.stage);
  const PeerId next = peers.at(static_cast<std::size_t>(work.microbatch.index) % peers.size());
  if (next == to) return "";
  return fmt::format("a microbatch stays in its pipeline: {} goes to peer {} instead of {}",
                     describe(work), to.value, next.value);
}

// ---- Jobs

std::string StaticPipelines::starts(PeerId peer, const Job& job) {
  if (!plan_.swarm.has_pipelines()) return "";
  PeerState& state = peers_[peer];
  state.job_is_old = false;
  if (const auto* forward = get_if<ForwardJob>(&job)) {
    return starts_forward(state, forward->work);
  }
  if (const auto* backward = get_if<BackwardJob>(&job)) {
    return starts_backward(state, peer, backward->work);
  }
  return "";
}

std::string StaticPipelines::starts_forward(PeerState& state, const WorkId& work) const {
  if (!state.begun.insert({work, false}).second) {
    return "in static pipelines no pass is done twice: " + describe(work);
  }
  if (plan_.swarm.method != Method::one_f_one_b || !trains(work)) return "";
  const std::int64_t most = plan_.stages() - work.stage.value;
  const auto open = static_cast<std::int64_t>(state.open[work.stage].size());
  if (open < most) return "";
  return fmt::format("as many microbatches are open as there are stages to come: {} are: {}",
                     open + 1, describe(work));
}

std::string StaticPipelines::starts_backward(PeerState& state, PeerId peer,
                                             const WorkId& work) const {
  if (!state.begun.insert({work, true}).second) {
    return "in static pipelines no pass is done twice: " + describe(work);
  }
  const bool last = work.stage.value + 1 == plan_.stages();
  if (plan_.swarm.method != Method::gpipe || last || !state.dealt) return "";
  const auto place = static_cast<std::int64_t>(state.dealt->place(peer, work.stage));
  const auto pipelines = static_cast<std::int64_t>(state.dealt->replicas(work.stage).size());
  std::int64_t all = 0;
  for (std::int64_t i = place; i < plan_.train.microbatches; i += pipelines) ++all;
  const auto done = state.forwards_done.find({work.microbatch.step, work.stage});
  const std::int64_t so_far = done == state.forwards_done.end() ? 0 : done->second;
  // In a pipeline that has lost a peer more may come, from one that has heard only of the view
  // after that death.
  if (so_far >= all) return "";
  return fmt::format("all forward passes go before the first backward pass: {} of {} are done: {}",
                     so_far, all, describe(work));
}

void StaticPipelines::finished(PeerId peer, const JobResult& result) {
  if (!plan_.swarm.has_pipelines()) return;
  PeerState& state = peers_[peer];
  if (state.job_is_old) return;
  if (const auto* forward = get_if<ForwardResult>(&result)) {
    if (!trains(forward->work)) return;
    ++state.forwards_done[{forward->work.microbatch.step, forward->work.stage}];
    state.open[forward->work.stage].insert(forward->work.microbatch);
  } else if (const auto* backward = get_if<BackwardResult>(&result)) {
    state.open[backward->work.stage].erase(backward->work.microbatch);
  }
}

}  // namespace swarmpi
