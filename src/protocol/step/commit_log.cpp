#include "protocol/step/commit_log.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "core/check.hpp"
#include "kernels/fixed_point.hpp"
#include "protocol/ending_words.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {

CommitLog::CommitLog(const RunPlan& plan, const ResumeState& resume)
    : delay_(plan.delay()), state_(resume), rows_written_(resume.step), checkpointed_(resume.step) {
  if (resume.step < 0) {
    const Exponents unset(static_cast<std::size_t>(plan.tensors()), kernels::kNoExponent);
    state_.exponents.assign(static_cast<std::size_t>(delay_), unset);
  }
  share_exponents();
}

std::string CommitLog::last_good_checkpoint() const {
  return checkpointed_.value < 0
             ? std::string("there is no earlier one")
             : fmt::format("the last good one is of step {}", checkpointed_.value);
}

std::string CommitLog::lacks_checkpoint() const {
  if (committed() <= checkpointed_) return "";
  return fmt::format("{} {}", ending_words::kNoCheckpointOf, committed().value);
}

void CommitLog::share_exponents() {
  exponents_.erase(exponents_.begin(), exponents_.upper_bound(committed()));
  for (std::size_t i = 0; i < state_.exponents.size(); ++i) {
    std::shared_ptr<const Exponents>& shared =
        exponents_[Step(state_.step + 1 + static_cast<std::int64_t>(i))];
    if (!shared || *shared != state_.exponents[i]) {
      shared = std::make_shared<const Exponents>(state_.exponents[i]);
    }
  }
}

const std::shared_ptr<const Exponents>& CommitLog::exponents(Step step) const {
  const auto found = exponents_.find(step);
  SWARMPI_CHECK(found != exponents_.end(),
                "the exponents of a step are asked for only while it may be open");
  return found->second;
}

void CommitLog::add(const CommitRef& record) {
  SWARMPI_CHECK(record->step > committed(), "a record is of a later step than those before it");
  state_.step = record->step.value;
  state_.applied_updates = record->applied_updates;
  state_.skips_in_a_row = record->skips_in_a_row;
  state_.time_s = record->time_s;
  state_.exponents = record->exponents_between;
  state_.exponents.push_back(record->next_exponents);
  share_exponents();
  commits_[record->step] = record;
  written(rows_written_, checkpointed_);
}

void CommitLog::written(Step rows, Step checkpoint) {
  rows_written_ = std::max(rows_written_, rows);
  checkpointed_ = std::max(checkpointed_, checkpoint);
  const Step before(state_.step - 1);
  commits_.erase(commits_.begin(), commits_.upper_bound(std::min(rows_written_, before)));
}

}  // namespace swarmpi
