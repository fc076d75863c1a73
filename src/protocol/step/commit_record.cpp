#include "protocol/step/commit_record.hpp"

#include <limits>

#include "protocol/messages/seal.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/exponents.hpp"
#include "protocol/step/open_step.hpp"
#include "protocol/step/schedule.hpp"

namespace swarmpi {

CommitRecord make_commit_record(const RunPlan& plan, const OpenStep& open,
                                const ResumeState& before, Term term, double run_time_s) {
  const Step step = open.step();
  const StepFacts& facts = *open.facts();
  CommitRecord record;
  record.step = step;
  record.term = term;
  record.time_s = run_time_s;
  record.hash_before = before.state_hash;
  record.tokens = plan.tokens_per_step();
  record.loss = facts.loss_nats / static_cast<double>(record.tokens);
  if (plan.validation_in(step) > 0) {
    record.validation_loss = facts.validation_nats / static_cast<double>(plan.validation_tokens());
  }
  record.next_exponents = next_exponents(facts.measured, before.exponents.back());
  record.exponents_between.assign(before.exponents.begin() + 1, before.exponents.end());
  // The measuring step sets the exponents of all steps that no step before them can set.
  if (step.value == 0) {
    for (Exponents& between : record.exponents_between) between = record.next_exponents;
  }
  record.applied_updates = before.applied_updates;
  record.skipped = step.value == 0 || !facts.flagged.empty();
  if (record.skipped) {
    record.grad_norm = std::numeric_limits<double>::quiet_NaN();
    record.skips_in_a_row = step.value == 0 ? 0 : before.skips_in_a_row + 1;
    return record;
  }
  record.applied_updates += 1;
  record.grad_norm = open.gradient_norm();
  const double limit = plan.train.clip;
  if (limit > 0 && record.grad_norm > limit) {
    record.clip = static_cast<float>(limit / record.grad_norm);
  }
  record.lr = learning_rate(plan.train, record.applied_updates);
  record.correction1 = bias_correction(plan.train.beta1, record.applied_updates);
  record.correction2 = bias_correction(plan.train.beta2, record.applied_updates);
  return record;
}

}  // namespace swarmpi
