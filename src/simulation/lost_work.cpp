#include "simulation/lost_work.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "protocol/messages/commit.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "simulation/event_trace.hpp"

namespace swarmpi {
namespace {

PassKind forward_kind(const WorkId& work) {
  return work.microbatch.purpose == Purpose::train ? PassKind::forward : PassKind::validation;
}

}  // namespace

// ---- What is begun and finished

void LostWork::happened(double, PeerId peer, const Event& event) {
  if (const auto* arrived = get_if<MessageArrived>(&event)) {
    const auto* commit = get_if<CommitMessage>(&arrived->message.body);
    if (commit != nullptr) commit_is_known(peer, commit->record->step);
  } else if (const auto* job = get_if<JobFinished>(&event)) {
    if (const auto* backward = get_if<BackwardResult>(&job->result)) {
      finish(peer, {PassKind::backward, backward->work});
    } else if (const auto* forward = get_if<ForwardResult>(&job->result)) {
      finish(peer, {forward_kind(forward->work), forward->work});
    }
  }
}

void LostWork::asked(double now_s, PeerId peer, const Action& action) {
  if (const auto* send = get_if<Send>(&action)) {
    const auto* commit = get_if<CommitMessage>(&send->message.body);
    if (commit != nullptr) commit_is_known(peer, commit->record->step);
  } else if (const auto* start = get_if<StartJob>(&action)) {
    if (const auto* backward = get_if<BackwardJob>(&start->job)) {
      begin(now_s, peer, {PassKind::backward, backward->work}, start->job);
    } else if (const auto* forward = get_if<ForwardJob>(&start->job)) {
      begin(now_s, peer, {forward_kind(forward->work), forward->work}, start->job);
    }
  }
}

void LostWork::begin(double now_s, PeerId peer, const Pass& pass, const Job& job) {
  const auto [entry, fresh] = begun_.try_emplace(pass);
  const Begun before = std::exchange(entry->second, {peer, false});
  if (fresh) return;
  LostPasses& passes = passes_[static_cast<std::size_t>(pass.kind)];
  if (deaths_ > 0 && before.by == dead_) {
    ++(before.finished ? passes.own_again : passes.cut_again);
    return;
  }
  ++passes.others_again;
  others_again_.push_back(fmt::format("{:.9f} s: peer {} begins {}, which peer {} {}", now_s,
                                      peer.value, describe(job), before.by.value,
                                      before.finished ? "had done" : "was doing"));
}

void LostWork::finish(PeerId peer, const Pass& pass) {
  const auto found = begun_.find(pass);
  if (found != begun_.end() && found->second.by == peer) found->second.finished = true;
}

// ---- What is open

void LostWork::commit_is_known(PeerId peer, Step step) {
  Step& last = commits_known_.try_emplace(peer, -1).first->second;
  last = std::max(last, step);
}

Step LostWork::committed() const {
  Step last(-1);
  for (const auto& [peer, step] : commits_known_) last = std::max(last, step);
  return last;
}

void LostWork::died(double now_s, PeerId peer) {
  ++deaths_;
  dead_ = peer;
  died_at_s_ = now_s;
  passes_ = {};
  others_again_.clear();
  commits_known_.erase(peer);
  const Step last = committed();
  anything_was_open_ = false;
  for (const auto& [pass, begun] : begun_) {
    if (pass.work.microbatch.step <= last) continue;
    anything_was_open_ = true;
    if (begun.by != peer) continue;
    LostPasses& passes = passes_[static_cast<std::size_t>(pass.kind)];
    ++(begun.finished ? passes.own : passes.cut_short);
  }
}

}  // namespace swarmpi
