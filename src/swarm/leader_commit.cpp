// The leader's decisions on a reduced step: norm, clip, exponents, the commit record, and the row
// once all agree.

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.hpp"
#include "core/hash.hpp"
#include "core/text.hpp"
#include "swarm/exponents.hpp"
#include "swarm/leader.hpp"
#include "swarm/rules.hpp"
#include "swarm/schedule.hpp"

namespace swarmpi {
namespace {

// Tensors that a message about differing states names.
constexpr int kTensorsNamed = 3;

}  // namespace

template <class Value>
bool Leader::all_replicas(const std::map<StageId, std::map<PeerId, Value>>& answers) const {
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    const auto stage = answers.find(StageId(s));
    if (stage == answers.end()) return false;
    for (const PeerId peer : view_.replicas(StageId(s))) {
      if (!stage->second.contains(peer)) return false;
    }
  }
  return true;
}

// Learners too, if they were there when it was sealed: what they have stays of use.
bool Leader::reduced_by_all(const OpenStep& open, StageId stage) const {
  const auto answers = open.reduced.find(stage);
  if (answers == open.reduced.end()) return false;
  const auto has = [&](PeerId peer) { return answers->second.contains(peer); };
  const std::vector<PeerId> replicas = view_.replicas(stage);
  const bool all = std::all_of(replicas.begin(), replicas.end(), has);
  if (holds(Rule::all_acknowledge) && !all) return false;
  for (const PeerId peer : open.stages.at(stage).learners) {
    const auto learns = view_.learners.find(peer);
    const bool still = learns != view_.learners.end() && learns->second.contains(stage);
    if (still && !has(peer)) return false;
  }
  return true;
}

bool Leader::reduced_by_all(const OpenStep& open) const {
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    if (!reduced_by_all(open, StageId(s))) return false;
  }
  return true;
}

// In order of steps, and only when the state before is agreed on: so a checkpoint of it can be
// asked for first.
void Leader::commit_reduced_steps() {
  while (!stopping() && (agreed_ == committed() || !holds(Rule::agree_first))) {
    const Step step = committed().next();
    const auto it = open_.find(step);
    if (it == open_.end() || !it->second.facts || !reduced_by_all(it->second)) return;
    commit(step, it->second);
    open_.erase(it);
  }
}

void Leader::commit(Step step, const OpenStep& open) {
  const CommitRef record = decide(step, open);
  chronicle_.add(record);
  if (record->skipped && step.value > 0) {
    std::string names;
    for (const std::int32_t id : record->flagged) names += " " + plan_.tensor_names.at(id);
    event("skip", step.value, 0, "infinite, NaN or overflowing gradients:" + names);
  }
  for (const FaultAt& fault : plan_.faults_at) {
    if (fault.event != "flip" || fault.step != step.value) continue;
    store(EventRow{run_time_s(), step.value, "flip", fault.peer, -1, 0, "by the deck"});
  }
  await_agreement(record, now_s_ - open.sealed_at_s);
  send_all(CommitMessage{record, chronicle_.rows_written(), chronicle_.checkpointed()});
}

void Leader::await_agreement(const CommitRef& record, double seal_to_commit_s) {
  Unagreed& row = unagreed_[record->step];
  row.record = record;
  row.seal_to_commit_s = seal_to_commit_s;
  if (plan_.validation_in(record->step) > 0) note_validation(record->step, record->validation_loss);
}

double Leader::gradient_norm(const OpenStep& open) const {
  std::vector<double> squares(plan_.tensors());
  for (const auto& [stage, by_peer] : open.reduced) {
    const std::vector<double>& of_stage = by_peer.begin()->second;
    const auto& ids = plan_.stage_tensors.at(stage.value);
    SWARMPI_CHECK(of_stage.size() == ids.size(), "an acknowledgement names every tensor");
    for (std::size_t i = 0; i < ids.size(); ++i) squares[ids[i]] = of_stage[i];
  }
  double sum = 0;  // in tensor order, whatever the stages
  for (const double square : squares) sum += square;
  return std::sqrt(sum);
}

std::shared_ptr<const CommitRecord> Leader::decide(Step step, const OpenStep& open) const {
  auto record = std::make_shared<CommitRecord>();
  const ResumeState& before = chronicle_.state();
  record->step = step;
  record->term = term_;
  record->time_s = run_time_s();
  record->hash_before = before.state_hash;
  record->tokens = plan_.tokens_per_step();
  record->loss = open.facts->loss_nats / static_cast<double>(record->tokens);
  if (const std::int64_t validation = plan_.validation_in(step); validation > 0) {
    record->validation_loss =
        open.facts->validation_nats / static_cast<double>(validation * plan_.tokens_per_microbatch);
  }
  record->flagged = open.facts->flagged;
  record->next_exponents = next_exponents(open.facts->measured, before.exponents.back());
  record->exponents_between.assign(before.exponents.begin() + 1, before.exponents.end());
  // The measuring step sets the exponents of all steps that no step before them can set.
  if (step.value == 0) {
    for (Exponents& between : record->exponents_between) between = record->next_exponents;
  }
  record->applied_updates = before.applied_updates;
  record->skipped = step.value == 0 || !open.facts->flagged.empty();
  if (record->skipped) {
    record->grad_norm = std::numeric_limits<double>::quiet_NaN();
    record->skips_in_a_row = step.value == 0 ? 0 : before.skips_in_a_row + 1;
    return record;
  }
  record->applied_updates += 1;
  record->grad_norm = gradient_norm(open);
  const double limit = plan_.train.clip;
  if (limit > 0 && record->grad_norm > limit) {
    record->clip = static_cast<float>(limit / record->grad_norm);
  }
  record->lr = learning_rate(plan_.train, record->applied_updates);
  record->correction1 = bias_correction(plan_.train.beta1, record->applied_updates);
  record->correction2 = bias_correction(plan_.train.beta2, record->applied_updates);
  return record;
}

std::optional<std::uint64_t> Leader::agreed_hash(Step step, const Unagreed& unagreed) {
  if (!all_replicas(unagreed.hashes)) return std::nullopt;
  std::uint64_t sum = 0;
  for (const auto& [stage, by_peer] : unagreed.hashes) {
    if (by_peer.empty()) return std::nullopt;
    const auto& first = by_peer.begin()->second;
    for (const auto& [peer, tensors] : by_peer) {
      if (tensors == first) continue;
      end(ExitStatus::no, disagreement(step, stage, by_peer));
      return std::nullopt;
    }
    for (const std::uint64_t hash : first) sum += hash;
  }
  return sum;
}

std::string Leader::unequal_tensors(StageId stage,
                                    const std::vector<std::vector<std::uint64_t>>& hashes) const {
  const auto& ids = plan_.stage_tensors.at(static_cast<std::size_t>(stage.value));
  std::string names;
  int unequal = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool equal = std::all_of(hashes.begin(), hashes.end(), [&](const auto& tensors) {
      return tensors.at(i) == hashes.front().at(i);
    });
    if (equal || ++unequal > kTensorsNamed) continue;
    names += " " + plan_.tensor_names.at(static_cast<std::size_t>(ids[i]));
  }
  if (unequal > kTensorsNamed) names += format(" and %d more", unequal - kTensorsNamed);
  return names;
}

std::string Leader::disagreement(
    Step step, StageId stage, const std::map<PeerId, std::vector<std::uint64_t>>& by_peer) const {
  std::vector<std::vector<std::uint64_t>> states;
  std::vector<std::string> camps;  // peers that hold each state
  for (const auto& [peer, tensors] : by_peer) {
    const auto known = std::find(states.begin(), states.end(), tensors);
    const auto camp = static_cast<std::size_t>(known - states.begin());
    if (known == states.end()) {
      states.push_back(tensors);
      camps.emplace_back();
    }
    camps[camp] += format(" %d", peer.value);
  }
  std::string text = format("after step %lld the replicas of stage %d disagree, peers%s",
                            static_cast<long long>(step.value), stage.value, camps.front().c_str());
  for (std::size_t i = 1; i < camps.size(); ++i) text += " against" + camps[i];
  return text + ", in" + unequal_tensors(stage, states);
}

void Leader::agree_on_hashes() {
  while (!unagreed_.empty()) {
    const auto it = unagreed_.begin();
    const Step step = it->first;
    // Steps before the last were agreed on, or it would not have been committed.
    const auto next = std::next(it);
    const std::optional<std::uint64_t> hash = next != unagreed_.end()
                                                  ? std::optional(next->second.record->hash_before)
                                                  : agreed_hash(step, it->second);
    if (!hash) return;
    chronicle_.agreed(*hash);
    agreed_ = step;
    agreed_hashes_.clear();
    for (auto& [stage, by_peer] : it->second.hashes) {
      agreed_hashes_[stage] = std::move(by_peer.begin()->second);
    }
    write_row(it->second, *hash);
    checkpoint_owed_ = checkpoint_owed_ || plan_.checkpoint_due(step);
    // Of a step that a dead leader committed before the last one, the state is gone.
    if (checkpoint_owed_ && step == committed()) ask_for_checkpoint(chronicle_.state());
    unagreed_.erase(it);
  }
}

void Leader::write_row(const Unagreed& agreed, std::uint64_t state_hash) {
  const CommitRecord& record = *agreed.record;
  store(StepRow{record.step.value, record.loss, record.grad_norm, record.clip, record.lr,
                record.tokens, record.time_s, state_hash, record.skipped, record.term.value,
                chronicle_.state().incarnation});
  double compute_s = 0;
  for (const PeerRow& use : agreed.uses) {
    compute_s += use.compute_s;
    store(use);
  }
  const double seconds = record.time_s - last_row_s_;
  last_row_s_ = record.time_s;
  if (seconds > 0) {
    const auto peers = static_cast<double>(std::max<std::int64_t>(serving_peers(), 1));
    store(ThroughputRow{record.time_s, static_cast<double>(record.tokens) / seconds,
                        compute_s / (seconds * peers)});
  }
  event("commit", record.step.value, agreed.seal_to_commit_s, "");
}

}  // namespace swarmpi
