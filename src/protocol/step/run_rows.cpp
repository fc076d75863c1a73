#include "protocol/step/run_rows.hpp"

#include <algorithm>
#include <limits>

#include "protocol/messages/record_port.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {

std::optional<Step> RunRows::durable(std::int64_t number) {
  durable_ = number;
  std::optional<Step> written;
  auto& last_records = history_.last_records;
  while (!last_records.empty() && last_records.front().first <= durable_) {
    written = last_records.front().second;
    last_records.pop_front();
  }
  return written;
}

StoreRecord RunRows::numbered(Row row, std::vector<GoodputRow> goodput) {
  return {++stored_, std::move(row), std::move(goodput)};
}

std::vector<RunRows::Row> RunRows::of(const AgreedStep& agreed, std::int64_t incarnation,
                                      const View& view) {
  const CommitRecord& record = *agreed.record;
  std::vector<Row> rows;
  // Step 0 only measures: whoever adds up the tokens finds those that were trained on.
  const std::int64_t trained = record.step.value == 0 ? 0 : record.tokens;
  rows.emplace_back(StepRow{record.step.value, record.loss, record.grad_norm, record.clip,
                            record.lr, trained, record.time_s, agreed.state_hash, record.skipped,
                            record.term.value, incarnation});
  for (const PeerRow& row : agreed.peer_rows) rows.emplace_back(row);
  speed_.measure(agreed.peer_rows);
  const double seconds = record.time_s - last_row_s_;
  last_row_s_ = record.time_s;
  if (seconds <= 0) return rows;
  const double rate = static_cast<double>(record.tokens) / seconds;
  const double ideal = speed_.ideal_per_s(view) * static_cast<double>(plan_->tokens_per_microbatch);
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  rows.emplace_back(ThroughputRow{record.time_s, rate, ideal > 0 ? rate / ideal : kUnknown,
                                  speed_.fraction_of_capacity(view)});
  return rows;
}

// A validation that rode on a step ran on the weights of a step before: once the step itself is
// agreed on, so are these. After the last step it rode on a pass without training.
std::vector<ValidationRow> RunRows::take_validations(Step agreed, std::optional<Step> oldest_open) {
  std::vector<ValidationRow> rows;
  auto& waiting = history_.validations;
  while (!waiting.empty()) {
    const auto& [step, row] = *waiting.begin();
    if (std::min(step.value, plan_->train.steps) > agreed.value) break;
    if (oldest_open && *oldest_open < step) break;
    rows.push_back(row);
    waiting.erase(waiting.begin());
  }
  return rows;
}

void RunRows::all_stored(Step step, Step written) {
  auto& last_records = history_.last_records;
  const Step known = last_records.empty() ? written : last_records.back().second;
  if (step > known) last_records.emplace_back(stored_, step);
}

}  // namespace swarmpi
