#include "protocol/replica/host_facts.hpp"

#include <algorithm>

#include "protocol/messages/step_facts.hpp"
#include "protocol/messages/tables.hpp"

namespace swarmpi {
namespace {

// In a report that waits.
constexpr std::ptrdiff_t kMostContributions = 16;

}  // namespace

void HostFacts::add_loss(const MicrobatchId& microbatch, double nats) {
  losses_[microbatch] = nats;
  report_.losses.push_back({microbatch, nats});
}

void HostFacts::add_hash(HashFact hash, bool in_report) {
  if (in_report) report_.hashes.push_back(hash);
  hashes_.push_back(std::move(hash));
}

bool HostFacts::can_wait(Step step) const {
  const auto is_of_inner_stage = [step](const ContributionFact& fact) {
    return fact.work.stage > StageId(0) && fact.work.microbatch.step == step;
  };
  const auto is_of_training = [step](const LossFact& fact) {
    return fact.microbatch.purpose == Purpose::train && fact.microbatch.step == step;
  };
  return report_.hashes.empty() && report_.uses.empty() &&
         std::ssize(report_.contributions) < kMostContributions &&
         std::ranges::all_of(report_.contributions, is_of_inner_stage) &&
         std::ranges::all_of(report_.losses, is_of_training);
}

// Those after the last commit but one are kept: a new leader agrees on them once more.
void HostFacts::forget(Step committed, Step written) {
  const Step before(committed.value - 1);
  std::erase_if(hashes_,
                [&](const HashFact& hash) { return hash.step <= std::min(written, before); });
  std::erase_if(goodput_, [&](const GoodputRow& row) { return row.step <= written.value; });
  sealed_.erase(sealed_.begin(), sealed_.upper_bound(committed));
  const MicrobatchId next{committed.next(), Purpose::train, 0};
  losses_.erase(losses_.begin(), losses_.lower_bound(next));
}

void HostFacts::fill(TableMessage& table) const {
  table.hashes = hashes_;
  table.goodput = goodput_;
  for (const auto& [microbatch, nats] : losses_) table.losses.push_back({microbatch, nats});
  for (const auto& [step, facts] : sealed_) table.facts.push_back({step, facts});
}

std::string HostFacts::left_over(Step committed) const {
  if (!losses_.empty() && losses_.begin()->first.step <= committed) {
    return "the loss of a microbatch";
  }
  if (!sealed_.empty() && sealed_.begin()->first <= committed) return "a step's facts";
  return "";
}

}  // namespace swarmpi
