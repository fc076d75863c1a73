#pragma once
// The rows that one leader stores: under which numbers, which of them are durable, and which steps
// are thereby written.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/records.hpp"
#include "protocol/messages/port_kinds.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/agreement.hpp"
#include "protocol/step/swarm_speed.hpp"

namespace swarmpi {

class RunRows {
 public:
  using Row = Record;

  /// `last_row_s`: the time of the last step that has a row.
  RunRows(const RunPlan& plan, double last_row_s)
      : plan_(&plan), last_row_s_(last_row_s), speed_(plan.stage_costs) {}

  /// What is to be stored, and answered by durable().
  StoreRecord numbered(Row row, std::vector<GoodputRow> goodput = {});
  /// All records up to this number are durable. The newest step that is thereby written: all its
  /// rows are.
  std::optional<Step> durable(std::int64_t number);
  bool all_durable() const { return durable_ == stored_; }

  /// The rows of a step: its own, those of its peers, and the throughput since the row before.
  /// `view`: whose peers it is measured by.
  std::vector<Row> of(const AgreedStep& agreed, std::int64_t incarnation, const View& view);
  /// Keeps a validation row, by the step that it rode on, until its state is agreed on.
  void add_validation(Step step, const ValidationRow& row) { history_.validations[step] = row; }
  bool validations_waiting() const { return !history_.validations.empty(); }
  /// The validation rows whose states are agreed on, in order of steps; `oldest_open`: the first
  /// step that is not committed, or whose validation is not finished.
  std::vector<ValidationRow> take_validations(Step agreed, std::optional<Step> oldest_open);
  /// All rows of the steps up to this one have their numbers; up to `written` they are durable.
  void all_stored(Step step, Step written);

  /// The rows that follow are of steps after this time.
  void go_on_from(double last_row_s) { last_row_s_ = last_row_s; }
  /// The steps that are not written yet are of a history that is left.
  void leave_history() { history_ = History(); }

 private:
  struct History {
    std::map<Step, ValidationRow> validations;               // by the step they rode on
    std::deque<std::pair<std::int64_t, Step>> last_records;  // of each step
  };

  const RunPlan* plan_;
  std::int64_t stored_ = 0;
  std::int64_t durable_ = 0;
  double last_row_s_;
  SwarmSpeed speed_;
  History history_;
};

}  // namespace swarmpi
