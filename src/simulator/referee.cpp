#include "simulator/referee.hpp"

#include <algorithm>

#include "core/overloaded.hpp"
#include "core/text.hpp"

namespace swarmpi {
namespace {

std::string name(const WorkId& work) {
  return format("%s microbatch %d of step %lld in stage %d",
                work.microbatch.purpose == Purpose::train ? "training" : "validation",
                work.microbatch.index, static_cast<long long>(work.microbatch.step.value),
                work.stage.value);
}

std::string name(Step step, StageId stage) {
  return format("stage %d, step %lld", stage.value, static_cast<long long>(step.value));
}

}  // namespace

Referee::Referee(const RunPlan& plan, const Roster& roster, const ResumeState& resume,
                 const VirtualDisk& disk)
    : plan_(plan),
      disk_(disk),
      spares_(roster.spares.begin(), roster.spares.end()),
      peers_(roster.workers.size() + roster.spares.size()),
      resumed_from_(resume.step) {}

void Referee::rule(bool kept, const char* what, PeerId peer, const std::string& about) {
  if (kept || !breach_.empty()) return;
  breach_ = format("peer %d: ", peer.value) + what + ": " + about;
}

// ---- Events

void Referee::happened(double, PeerId peer, const Event& event) {
  if (const auto* job = std::get_if<JobFinished>(&event)) return finished(peer, job->result);
  if (const auto* arrived = std::get_if<MessageArrived>(&event)) {
    if (const auto* view = std::get_if<ViewMessage>(&arrived->message.body)) {
      views_heard_[peer].insert(view->view.number);
    }
  } else if (const auto* stored = std::get_if<StageStored>(&event)) {
    storing_.erase({peer, stored->stage});
  }
}

void Referee::finished(PeerId peer, const JobResult& result) {
  computing_.erase(peer);
  if (const auto* pass = std::get_if<BackwardResult>(&result)) {
    if (pass->work.stage.value == 0) in_flight_.erase(pass->work.microbatch);
  } else if (const auto* forward = std::get_if<ForwardResult>(&result)) {
    if (forward->work.stage.value + 1 == plan_.stages()) in_flight_.erase(forward->work.microbatch);
  } else if (const auto* apply = std::get_if<ApplyResult>(&result)) {
    applied(peer, *apply);
  }
}

void Referee::applied(PeerId peer, const ApplyResult& result) {
  const Held held{peer, result.stage};
  applying_.erase(held);
  const auto before = applied_.try_emplace(held, resumed_from_.value).first;
  if (before->second + 1 != result.step.value) {
    rule(false, "updates are applied in order", peer, name(result.step, result.stage));
  }
  before->second = result.step.value;
  const auto [first, fresh] = states_.try_emplace({result.step, result.stage}, result);
  if (!fresh && !overlooks_states_ && first->second.tensor_hashes != result.tensor_hashes) {
    rule(false, "replicas agree on the state", peer, name(result.step, result.stage));
  }
}

// ---- Actions

void Referee::asked(double, PeerId peer, const Action& action) {
  std::visit(Overloaded{
                 [&](const Send& a) { sends(peer, a.message); },
                 [&](const StartJob& a) { started(peer, a.job); },
                 [&](const StoreStage& a) { stores(peer, a); },
                 [&](const StoreRecord&) { ++records_asked_; },
                 [&](const Finish& a) { finishes(peer, a.status); },
                 [](const auto&) {},
             },
             action);
}

void Referee::started(PeerId peer, const Job& job) {
  ++jobs_;
  if (!computing_.insert(peer).second) rule(false, "one job at a time", peer, "another began");
  if (spares_.contains(peer)) rule(false, "spares get no work", peer, "a job began");
  if (const auto* apply = std::get_if<ApplyJob>(&job)) {
    const Held held{peer, apply->stage};
    applying_.insert(held);
    if (storing_.contains(held)) {
      rule(false, "nothing is applied to a state that is being written", peer,
           name(apply->record->step, apply->stage));
    }
    return;
  }
  // Nobody has died: nothing is done twice.
  const auto once = [&](const WorkId& work, int kind) {
    int& passes = passes_[{peer, work}];
    if ((passes & kind) != 0) rule(false, "no pass is repeated without need", peer, name(work));
    passes |= kind;
  };
  if (const auto* forward = std::get_if<ForwardJob>(&job)) once(forward->work, 1);
  if (const auto* backward = std::get_if<BackwardJob>(&job)) once(backward->work, 2);
}

void Referee::stores(PeerId peer, const StoreStage& store) {
  const Held held{peer, store.stage};
  storing_.insert(held);
  const auto applied = applied_.find(held);
  const std::int64_t stands_at = applied == applied_.end() ? resumed_from_.value : applied->second;
  if (stands_at != store.step.value || applying_.contains(held)) {
    rule(false, "a checkpoint holds the state of its step", peer, name(store.step, store.stage));
  }
}

void Referee::sends(PeerId peer, const Message& message) {
  if (const auto* issue = std::get_if<IssueMessage>(&message.body)) {
    in_flight_.insert(issue->microbatch);
    const auto in_flight = static_cast<std::int64_t>(in_flight_.size());
    if (in_flight > plan_.window) {
      rule(false, "the window bounds the microbatches in flight", peer,
           format("%lld are", static_cast<long long>(in_flight)));
    }
  } else if (const auto* view = std::get_if<ViewMessage>(&message.body)) {
    views_.insert(view->view.number);
  } else if (const auto* commit = std::get_if<CommitMessage>(&message.body)) {
    const auto [known, fresh] = commits_.try_emplace(commit->record->step, commit->record);
    if (!fresh && known->second != commit->record) {
      rule(false, "a step is committed once", peer, name(commit->record->step, StageId(0)));
    }
  }
}

void Referee::finishes(PeerId peer, const Status& status) {
  ended_[peer] = status;
  if (status.code() == ExitStatus::good && !disk_.complete) {
    rule(false, "nobody finishes before completion is durable", peer, "finished");
  }
  const auto durable = static_cast<std::int64_t>(disk_.journal.size());
  const bool saved =
      commits_.empty() || (!disk_.checkpoints.empty() &&
                           disk_.checkpoints.back().state.step == commits_.rbegin()->first.value);
  if (status.code() == ExitStatus::stopped && (durable < records_asked_ || !saved)) {
    rule(false, "nobody stops before journal and checkpoint are durable", peer, "finished");
  }
}

std::string Referee::at_the_end(const VirtualWorld& world) const {
  if (!breach_.empty()) return breach_;
  if (!world.all_done() || ended_.size() < peers_) {
    return format("stalled after %lld events at %.6f s:\n", static_cast<long long>(world.events()),
                  world.now_s()) +
           world.waiting_for();
  }
  const Status& first = ended_.begin()->second;
  for (const auto& [peer, status] : ended_) {
    if (status.code() == first.code() && status.message() == first.message()) continue;
    return format("peer %d ended with status %d (%s), the leader with %d (%s)", peer.value,
                  static_cast<int>(status.code()), status.message().c_str(),
                  static_cast<int>(first.code()), first.message().c_str());
  }
  if (commits_.empty()) return "";  // stopped at once
  for (const auto& [peer, status] : ended_) {
    const auto heard = views_heard_.find(peer);
    if (heard != views_heard_.end() && heard->second == views_) continue;
    return format("peer %d has not heard every view", peer.value);
  }
  if (first.code() == ExitStatus::no) return "";
  for (const auto& [held, step] : applied_) {
    if (step == commits_.rbegin()->first.value) continue;
    return format("peer %d ended with step %lld of stage %d applied", held.first.value,
                  static_cast<long long>(step), held.second.value);
  }
  return "";
}

}  // namespace swarmpi
