#include "io/throughput_steps.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/records.hpp"

namespace swarmpi {

namespace {

/// Times of steps, and the steps, in the order of both.
using Times = std::vector<std::pair<double, std::int64_t>>;

Times times_of_steps(TableRows& rows, std::size_t from, std::size_t most) {
  Times times;
  std::size_t at = 0;
  const TableRows::Use<StepRow> use = [&](std::span<const StepRow> some) {
    for (const StepRow& row : some) {
      if (at++ >= from && times.size() < most) times.emplace_back(row.time_s, row.step);
    }
    return times.size() < most;
  };
  rows.for_each(use);
  std::sort(times.begin(), times.end());
  return times;
}

/// The first step with this time; -1 if there is none.
std::int64_t step_at(const Times& times, double time_s) {
  const auto found =
      std::lower_bound(times.begin(), times.end(), time_s,
                       [](const auto& entry, double wanted) { return entry.first < wanted; });
  return found != times.end() && found->first == time_s ? found->second : -1;
}

/// Writes those of the rows that have a step among these, or with `all` each row.
int write_known(TableRows& rows, const Times& times, bool all, const Descriptor& file,
                std::int64_t offset) {
  int error = 0;
  std::int64_t at = offset;
  std::vector<std::int64_t> steps;
  const auto write = [&] {
    const std::string_view bytes(reinterpret_cast<const char*>(steps.data()),
                                 steps.size() * sizeof(std::int64_t));
    if (error == 0 && !bytes.empty()) error = write_all_at(file, bytes, at);
    at += static_cast<std::int64_t>(bytes.size());
    steps.clear();
  };
  const TableRows::Use<ThroughputRow> use = [&](std::span<const ThroughputRow> some) {
    for (const ThroughputRow& row : some) {
      const std::int64_t step = step_at(times, row.time_s);
      if (all || step >= 0) {
        steps.push_back(step);
      } else {
        write();
        at += static_cast<std::int64_t>(sizeof(std::int64_t));
      }
    }
    write();
    return error == 0;
  };
  rows.for_each(use);
  return error;
}

}  // namespace

int write_throughput_steps(TableRows& rows, const Descriptor& file, std::int64_t offset,
                           std::size_t steps_at_once) {
  const std::size_t count = rows.count(static_cast<const StepRow*>(nullptr));
  std::size_t from = 0;
  do {
    const Times times = times_of_steps(rows, from, steps_at_once);
    if (const int error = write_known(rows, times, from == 0, file, offset)) return error;
    from += steps_at_once;
  } while (from < count);
  return 0;
}

}  // namespace swarmpi
