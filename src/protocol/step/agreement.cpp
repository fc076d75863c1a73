#include "protocol/step/agreement.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "protocol/messages/load_facts.hpp"
#include "protocol/messages/step_facts.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/state_hash.hpp"

namespace swarmpi {
namespace {

// Tensors that a message about differing states names.
constexpr int kMaxTensorsNamed = 3;

}  // namespace

void Agreement::await(const CommitRef& record, double seal_to_commit_s) {
  AgreedStep& step = awaited_[record->step].step;
  step.record = record;
  step.seal_to_commit_s = seal_to_commit_s;
}

void Agreement::enter(const View& view, const HashFact& fact, PeerId from) {
  const auto awaited = awaited_.find(fact.step);
  if (awaited == awaited_.end()) return;
  awaited->second.hashes.enter(view, fact.stage, from, fact.hash);
}

void Agreement::enter(const UseFact& fact) {
  const auto awaited = awaited_.find(Step(fact.row.step));
  if (awaited != awaited_.end()) awaited->second.step.peer_rows.push_back(fact.row);
}

void Agreement::forget(PeerId peer, std::optional<StageId> stage) {
  for (auto& [step, awaited] : awaited_) awaited.hashes.forget(peer, stage);
}

Result<std::optional<AgreedStep>> Agreement::decide(const View& view) {
  std::optional<AgreedStep> agreed;
  if (awaited_.empty()) return agreed;
  auto& [step, oldest] = *awaited_.begin();
  const auto next = std::next(awaited_.begin());
  // All steps but the last were agreed on, or the next would not have been committed.
  Result<std::optional<std::uint64_t>> hash =
      next != awaited_.end() ? std::optional(next->second.step.record->hash_before)
                             : state_hash(view, step, oldest);
  if (!hash.ok()) return hash.status();
  if (!hash.value()) return agreed;
  agreed_ = step;
  if (!oldest.without_the_late) left_out_.clear();
  hashes_.clear();
  for (std::int32_t s = 0; s < plan_->stages(); ++s) {
    const auto& by_peer = oldest.hashes.of(StageId(s));
    if (!by_peer.empty()) hashes_[StageId(s)] = together(by_peer);
  }
  agreed = std::move(oldest.step);
  agreed->state_hash = *hash.value();
  awaited_.erase(awaited_.begin());
  return agreed;
}

std::optional<StageId> Agreement::leave_out_the_late(const View& view) {
  if (awaited_.empty()) return std::nullopt;
  AwaitedStep& oldest = awaited_.begin()->second;
  for (std::int32_t s = 0; s < plan_->stages(); ++s) {
    const StageId stage(s);
    const bool all = oldest.hashes.from_all(view, stage);
    if (oldest.hashes.of(stage).empty() || (plan_->swarm.has_owners() && !all)) return stage;
  }
  oldest.without_the_late = true;
  for (std::int32_t s = 0; s < plan_->stages(); ++s) {
    for (const PeerId peer : view.replicas(StageId(s))) {
      if (!oldest.hashes.of(StageId(s)).contains(peer)) left_out_.insert({peer, StageId(s)});
    }
  }
  return std::nullopt;
}

bool Agreement::lacks_only(const View& view, const std::set<PeerId>& peers) const {
  if (awaited_.empty()) return false;
  if (plan_->swarm.has_owners()) return false;
  const StageAnswers<StateHash>& hashes = awaited_.begin()->second.hashes;
  for (std::int32_t s = 0; s < plan_->stages(); ++s) {
    const auto& by_peer = hashes.of(StageId(s));
    const auto& replicas = view.replicas(StageId(s));
    const bool all_others = std::all_of(replicas.begin(), replicas.end(), [&](PeerId peer) {
      return by_peer.contains(peer) || peers.contains(peer);
    });
    if (by_peer.empty() || !all_others) return false;
  }
  return true;
}

std::vector<PeerId> Agreement::awaited_of(const View& view, StageId stage) const {
  std::vector<PeerId> peers;
  if (awaited_.empty()) return peers;
  const StageAnswers<StateHash>& hashes = awaited_.begin()->second.hashes;
  for (const PeerId peer : view.replicas(stage)) {
    if (!hashes.has(stage, peer)) peers.push_back(peer);
  }
  return peers;
}

std::optional<Step> Agreement::awaited() const {
  return awaited_.empty() ? std::nullopt : std::optional(awaited_.begin()->first);
}

Result<std::optional<std::uint64_t>> Agreement::state_hash(const View& view, Step step,
                                                           const AwaitedStep& awaited) const {
  const std::optional<std::uint64_t> unknown;
  const StageAnswers<StateHash>& hashes = awaited.hashes;
  if (!awaited.without_the_late && !hashes.from_all(view, plan_->stages())) return unknown;
  std::uint64_t sum = 0;
  for (std::int32_t s = 0; s < plan_->stages(); ++s) {
    const StageId stage(s);
    const auto& by_peer = hashes.of(stage);
    if (by_peer.empty()) return unknown;  // nobody serves it
    const TensorHashes& first = compared(by_peer.begin()->second);
    for (const auto& [peer, hash] : by_peer) {
      if (compared(hash) != first) return disagreement(step, stage, by_peer);
    }
    for (const std::uint64_t hash : together(by_peer)) sum += hash;
  }
  return std::optional(sum);
}

const TensorHashes& Agreement::compared(const StateHash& hash) const {
  return plan_->swarm.has_owners() ? hash.weights : hash.tensors;
}

TensorHashes Agreement::together(const std::map<PeerId, StateHash>& by_peer) const {
  TensorHashes sums = by_peer.begin()->second.tensors;
  if (!plan_->swarm.has_owners()) return sums;
  for (auto other = std::next(by_peer.begin()); other != by_peer.end(); ++other) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += other->second.tensors.at(i);
  }
  return sums;
}

Status Agreement::disagreement(Step step, StageId stage,
                               const std::map<PeerId, StateHash>& by_peer) const {
  std::vector<TensorHashes> states;
  std::vector<std::string> groups;  // peers that hold each state
  for (const auto& [peer, hash] : by_peer) {
    const auto known = std::find(states.begin(), states.end(), compared(hash));
    const auto group = static_cast<std::size_t>(known - states.begin());
    if (known == states.end()) {
      states.push_back(compared(hash));
      groups.emplace_back();
    }
    groups[group] += fmt::format(" {}", peer.value);
  }
  std::string text = fmt::format("after step {} the replicas of stage {} disagree, peers{}",
                                 step.value, stage.value, groups.front());
  for (std::size_t i = 1; i < groups.size(); ++i) text += " against" + groups[i];
  return Status::failed(text + ", in" + unequal_tensors(*plan_, stage, states) +
                        "; check the memory of their hosts");
}

std::string unequal_tensors(const RunPlan& plan, StageId stage,
                            const std::vector<TensorHashes>& hashes) {
  const auto& ids = plan.stage_tensors.at(static_cast<std::size_t>(stage.value));
  std::string names;
  int unequal = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool equal = std::all_of(hashes.begin(), hashes.end(), [&](const auto& tensors) {
      return tensors.at(i) == hashes.front().at(i);
    });
    if (equal || ++unequal > kMaxTensorsNamed) continue;
    names += " " + plan.tensor_names.at(static_cast<std::size_t>(ids[i]));
  }
  if (unequal > kMaxTensorsNamed) names += fmt::format(" and {} more", unequal - kMaxTensorsNamed);
  return names;
}

bool Agreement::counts_hold(const View& view) const {
  return std::all_of(awaited_.begin(), awaited_.end(),
                     [&](const auto& awaited) { return awaited.second.hashes.counts_hold(view); });
}

}  // namespace swarmpi
