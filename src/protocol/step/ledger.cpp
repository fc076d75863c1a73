#include "protocol/step/ledger.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/check.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/step_facts.hpp"
#include "protocol/messages/table_rows.hpp"

namespace swarmpi {

Ledger::Ledger(const RunPlan& plan, Step step)
    : plan_(plan),
      step_(step),
      stages_(plan.stages(), StageAccount{Bitmap(plan.train_microbatches(step)), {}, false}),
      train_losses_(plan.train_microbatches(step)),
      validation_losses_(plan.validation_in(step)),
      missing_(plan.train_microbatches(step), static_cast<std::int32_t>(plan.stages())),
      measured_(plan.tensors(), kernels::kNoExponent) {}

// ---- Facts in

void Ledger::add_contribution(const ContributionFact& fact, PeerId from) {
  const std::int64_t index = fact.work.microbatch.index;
  StageAccount& stage = stages_.at(fact.work.stage.value);
  stage.by_peer.try_emplace(from, plan_.train_microbatches(step_)).first->second.insert(index);
  add_measurements(fact.work.stage, fact.tensors);
  count(stage, index);
}

void Ledger::count(StageAccount& stage, std::int64_t index) {
  if (stage.counted.contains(index)) return;
  stage.counted.insert(index);
  if (stage.settled || --missing_.at(index) > 0) return;
  finished_ += finished_training(static_cast<std::size_t>(index)) ? 1 : 0;
}

void Ledger::add_stage_row(const StageRow& row, PeerId from) {
  if (row.contributed.count() == 0) return;
  StageAccount& stage = stages_.at(row.stage.value);
  stage.by_peer.try_emplace(from, plan_.train_microbatches(step_))
      .first->second.merge(row.contributed);
  for (std::int64_t index = 0; index < row.contributed.size(); ++index) {
    if (row.contributed.contains(index)) count(stage, index);
  }
  add_measurements(row.stage, row.tensors);
}

void Ledger::add_measurements(StageId stage,
                              const std::vector<kernels::Contribution>& contributions) {
  if (contributions.empty()) return;
  const auto& tensors = plan_.stage_tensors.at(stage.value);
  SWARMPI_CHECK(contributions.size() == tensors.size(), "a contribution names every tensor");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::int16_t& measured = measured_[tensors[i]];
    measured = std::max(measured, contributions[i].exponent);
    // Step 0 has no exponents yet, and measures them: there an overflow is no fault.
    const bool flag = contributions[i].nonfinite || (step_.value > 0 && contributions[i].overflow);
    if (flag) flagged_tensors_.insert(tensors[i]);
  }
}

void Ledger::add_loss(const LossFact& fact) {
  const bool training = fact.microbatch.purpose == Purpose::train;
  auto& loss = (training ? train_losses_ : validation_losses_).at(fact.microbatch.index);
  if (loss) {
    SWARMPI_CHECK(plan_.swarm.allow_mixed || std::bit_cast<std::uint64_t>(*loss) ==
                                                 std::bit_cast<std::uint64_t>(fact.nats),
                  "the loss of a microbatch does not depend on who computes it");
    return;
  }
  loss = fact.nats;
  const bool last = !training || missing_.at(fact.microbatch.index) == 0;
  if (sealed_ || !last) return;
  ++finished_;
  if (!training) ++validated_;
}

void Ledger::set_facts(const std::shared_ptr<const StepFacts>& facts) {
  sealed_ = facts;
  recount();
}

// In a mixed run the loss of a microbatch is that of the contribution that counts.
void Ledger::forget_losses(const Bitmap& microbatches) {
  if (!plan_.swarm.allow_mixed || sealed_) return;
  for (std::int64_t index = 0; index < microbatches.size(); ++index) {
    if (microbatches.contains(index)) train_losses_[static_cast<std::size_t>(index)].reset();
  }
}

void Ledger::forget(PeerId peer, std::optional<StageId> stage_left) {
  bool forgot = false;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    StageAccount& stage = stages_[s];
    if (stage_left && s != static_cast<std::size_t>(stage_left->value)) continue;
    const auto found = stage.by_peer.find(peer);
    if (found == stage.by_peer.end()) continue;
    Bitmap lost = std::move(found->second);
    stage.by_peer.erase(found);
    forgot = true;
    stage.counted = Bitmap(plan_.train_microbatches(step_));
    for (const auto& [other, microbatches] : stage.by_peer) stage.counted.merge(microbatches);
    lost.subtract(stage.counted);
    if (s + 1 == stages_.size() && !stage.settled) forget_losses(lost);
  }
  if (forgot) recount();
}

void Ledger::set_settled(StageId stage, bool settled) {
  if (std::exchange(stages_.at(stage.value).settled, settled) != settled) recount();
}

void Ledger::recount() {
  finished_ = 0;
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    missing_[i] = static_cast<std::int32_t>(
        std::count_if(stages_.begin(), stages_.end(), [&](const StageAccount& stage) {
          return !stage.settled && !stage.counted.contains(static_cast<std::int64_t>(i));
        }));
    finished_ += finished_training(i) ? 1 : 0;
  }
  validated_ = std::count_if(validation_losses_.begin(), validation_losses_.end(),
                             [&](const auto& loss) { return sealed_ || loss; });
  finished_ += validated_;
}

// ---- Conclusions

std::optional<PeerId> Ledger::contributor(const WorkId& work) const {
  for (const auto& [peer, microbatches] : at(work.stage).by_peer) {
    if (microbatches.contains(work.microbatch.index)) return peer;
  }
  return std::nullopt;
}

bool Ledger::covered(StageId stage) const { return at(stage).settled || at(stage).counted.full(); }

bool Ledger::finished(const MicrobatchId& microbatch) const {
  const auto index = static_cast<std::size_t>(microbatch.index);
  if (microbatch.purpose == Purpose::train) return finished_training(index);
  return sealed_ || validation_losses_.at(index);
}

bool Ledger::complete() const {
  return finished_ == static_cast<std::int64_t>(train_losses_.size() + validation_losses_.size());
}

// If two peers have contributed the same microbatch, the seal names it for the one with the lower
// id, and the other refuses the seal.
std::vector<SealShare> Ledger::shares(StageId stage) const {
  std::vector<SealShare> shares;
  Bitmap assigned(plan_.train_microbatches(step_));
  for (const auto& [peer, microbatches] : at(stage).by_peer) {
    SealShare share{peer, microbatches};
    share.microbatches.subtract(assigned);
    assigned.merge(microbatches);
    shares.push_back(std::move(share));
  }
  SWARMPI_CHECK(at(stage).settled || assigned.full(), "only a covered stage can be sealed");
  return shares;
}

std::shared_ptr<const StepFacts> Ledger::facts() const {
  if (sealed_) return sealed_;
  SWARMPI_CHECK(complete(), "the facts of a step are asked for once it is complete");
  auto facts = std::make_shared<StepFacts>();
  facts->loss_nats = sum(train_losses_);
  facts->validation_nats = sum(validation_losses_);
  facts->measured = measured_;
  facts->flagged.assign(flagged_tensors_.begin(), flagged_tensors_.end());
  return facts;
}

double Ledger::sum(const std::vector<std::optional<double>>& losses) const {
  double nats = 0;
  for (const auto& loss : losses) nats += *loss;
  return nats;
}

}  // namespace swarmpi
