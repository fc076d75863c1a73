#pragma once
// The decision that a commit is: what every peer needs to apply the step.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/records.hpp"

namespace swarmpi {

class OpenStep;
struct RunPlan;

/// All that a peer needs to apply a step, the same bits for everyone.
struct CommitRecord {
  Step step;
  Term term;                      // of the leader that decided
  double time_s = 0;              // since the run's first start
  std::uint64_t hash_before = 0;  // of the state after the step before, as all have agreed
  double loss = 0;                // mean nats per token, summed in index order
  double validation_loss = 0;     // likewise, of the validation that rode on the step
  std::int64_t tokens = 0;
  double grad_norm = 0;  // NaN where skipped
  float clip = 1;
  float lr = 0;
  float correction1 = 1;  // 1 - beta1^t
  float correction2 = 1;
  bool skipped = false;
  std::int64_t applied_updates = 0;  // this one included
  std::int64_t skips_in_a_row = 0;
  Exponents next_exponents;                  // E(step + d)
  std::vector<Exponents> exponents_between;  // E(step + 1) ... E(step + d - 1)
};
SWARMPI_FIELDS(CommitRecord, step, term, time_s, hash_before, loss, validation_loss, tokens,
               grad_norm, clip, lr, correction1, correction2, skipped, applied_updates,
               skips_in_a_row, next_exponents, exponents_between);

using CommitRef = std::shared_ptr<const CommitRecord>;

/// Losses, norm, clip, exponents, learning rate: from the step's facts and reduced gradients, and
/// the state before it. REQUIRES: open.facts(), and all replicas hold the reduced gradients.
CommitRecord make_commit_record(const RunPlan& plan, const OpenStep& open,
                                const ResumeState& before, Term term, double run_time_s);

}  // namespace swarmpi
