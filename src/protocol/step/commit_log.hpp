#pragma once
// What is committed, as one peer knows it: what the open steps compute with, and all that it needs
// to lead if those before it die.

#include <cstdint>
#include <map>
#include <memory>

#include "protocol/messages/messages.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

class CommitLog {
 public:
  CommitLog(const RunPlan& plan, const ResumeState& resume);

  Step committed() const { return Step(state_.step); }
  /// As of the last committed step; its hash is that of the last step that was agreed on.
  const ResumeState& state() const { return state_; }
  void agreed(std::uint64_t state_hash) { state_.state_hash = state_hash; }
  /// E of an open step. REQUIRES: the step may start.
  const std::shared_ptr<const Exponents>& exponents(Step step) const;

  /// REQUIRES: the record is of a later step: of the next one, unless this peer serves no stage.
  void add(const CommitRef& record);

  /// Rows up to this step are durable, and the newest durable checkpoint is of that one: commits
  /// before are forgotten, but for the last.
  void written(Step rows, Step checkpoint);
  Step rows_written() const { return rows_written_; }
  Step checkpointed() const { return checkpointed_; }
  /// Those that may not be written down yet, and the last one.
  const std::map<Step, CommitRef>& commits() const { return commits_; }

 private:
  void share_exponents();

  std::int64_t delay_;
  ResumeState state_;
  std::map<Step, std::shared_ptr<const Exponents>> exponents_;  // of the steps that may be open
  std::map<Step, CommitRef> commits_;
  Step rows_written_;
  Step checkpointed_;
};

}  // namespace swarmpi
