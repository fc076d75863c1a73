#pragma once
// The committed steps, as one peer knows them: the state and the exponents that open steps compute
// with, and the commit records that it needs if it has to lead.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "protocol/run_plan.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {

class CommitLog {
 public:
  CommitLog(const RunPlan& plan, const ResumeState& resume);

  Step committed() const { return Step(state_.step); }
  /// As of the last committed step, but for its hash: that of the last step that was agreed on.
  const ResumeState& state() const { return state_; }
  /// The hash of the newest state that all replicas agree on.
  void agreed(std::uint64_t state_hash) { state_.state_hash = state_hash; }
  /// E(step) of each tensor. REQUIRES: the step may start, and is not committed.
  const std::shared_ptr<const Exponents>& exponents(Step step) const;

  /// REQUIRES: the record is of a later step: of the next one, unless this peer serves no stage.
  void add(const CommitRef& record);

  /// The rows up to step `rows` are durable, and so is a checkpoint of step `checkpoint`. Records
  /// of steps up to `rows` are forgotten, but for the last. Older news than is known changes
  /// nothing.
  void written(Step rows, Step checkpoint);
  Step rows_written() const { return rows_written_; }
  Step checkpointed() const { return checkpointed_; }
  /// "the last good one is of step 40": of checkpoints, for people.
  std::string last_good_checkpoint() const;
  /// "there is no checkpoint of step 47": of the last committed one; "" if there is.
  std::string lacks_checkpoint() const;
  /// The records whose rows may not be durable, and the last one.
  const std::map<Step, CommitRef>& commits() const { return commits_; }

 private:
  /// Makes exponents_ from the state.
  void share_exponents();

  std::int64_t delay_;
  ResumeState state_;
  std::map<Step, std::shared_ptr<const Exponents>> exponents_;  // of the steps that may be open
  std::map<Step, CommitRef> commits_;
  Step rows_written_;
  Step checkpointed_;
};

}  // namespace swarmpi
