#include "swarm/ledger.hpp"

#include <algorithm>
#include <bit>

#include "core/check.hpp"

namespace swarmpi {

Ledger::Ledger(const RunPlan& plan, Step step)
    : plan_(plan),
      step_(step),
      stages_(plan.stages(), StageAccount{Bitmap(plan.train_microbatches(step)), {}}),
      train_losses_(plan.train_microbatches(step)),
      validation_losses_(plan.validation_in(step)),
      contributions_left_(plan.train_microbatches(step), static_cast<std::int32_t>(plan.stages())),
      measured_(plan.tensors(), kernels::kNoExponent) {}

void Ledger::note(const ContributionFact& fact, PeerId from) {
  const std::int64_t index = fact.work.microbatch.index;
  StageAccount& stage = stages_.at(fact.work.stage.value);
  if (stage.counted.contains(index)) return;
  stage.counted.insert(index);
  stage.by_peer.try_emplace(from, plan_.train_microbatches(step_)).first->second.insert(index);

  const auto& tensors = plan_.stage_tensors.at(fact.work.stage.value);
  SWARMPI_CHECK(fact.tensors.size() == tensors.size(), "a contribution names every tensor");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::int16_t& measured = measured_[tensors[i]];
    measured = std::max(measured, fact.tensors[i].exponent);
    // Step 0 has no exponents yet: an overflow is what it is there to find out.
    const bool flag = fact.tensors[i].nonfinite || (step_.value > 0 && fact.tensors[i].overflow);
    if (flag) flagged_tensors_.insert(tensors[i]);
  }
  if (--contributions_left_.at(index) == 0 && train_losses_[index]) ++finished_;
}

void Ledger::note(const LossFact& fact) {
  const bool training = fact.microbatch.purpose == Purpose::train;
  auto& loss = (training ? train_losses_ : validation_losses_).at(fact.microbatch.index);
  if (loss) {
    SWARMPI_CHECK(std::bit_cast<std::uint64_t>(*loss) == std::bit_cast<std::uint64_t>(fact.nats),
                  "the loss of a microbatch does not depend on who computes it");
    return;
  }
  loss = fact.nats;
  if (!training || contributions_left_.at(fact.microbatch.index) == 0) ++finished_;
}

bool Ledger::finished(const MicrobatchId& microbatch) const {
  if (microbatch.purpose == Purpose::validate) {
    return validation_losses_.at(microbatch.index).has_value();
  }
  return contributions_left_.at(microbatch.index) == 0 &&
         train_losses_.at(microbatch.index).has_value();
}

std::int64_t Ledger::finished_count() const { return finished_; }

bool Ledger::complete() const {
  return finished_ == static_cast<std::int64_t>(train_losses_.size() + validation_losses_.size());
}

std::vector<SealShare> Ledger::shares() const {
  SWARMPI_CHECK(complete(), "only a complete step can be sealed");
  std::vector<SealShare> shares;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (const auto& [peer, microbatches] : stages_[s].by_peer) {
      shares.push_back({StageId(static_cast<std::int32_t>(s)), peer, microbatches});
    }
  }
  return shares;
}

double Ledger::loss_nats(Purpose purpose) const {
  SWARMPI_CHECK(complete(), "losses are summed when all are known");
  double sum = 0;
  for (const auto& loss : purpose == Purpose::train ? train_losses_ : validation_losses_) {
    sum += *loss;
  }
  return sum;
}

}  // namespace swarmpi
