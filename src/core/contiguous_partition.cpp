#include "core/contiguous_partition.hpp"

#include <algorithm>
#include <limits>

#include "core/check.hpp"

namespace swarmpi {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

std::vector<double> prefix_sums(std::span<const double> costs) {
  std::vector<double> sums(costs.size() + 1, 0.0);
  for (std::size_t i = 0; i < costs.size(); ++i) sums[i + 1] = sums[i] + costs[i];
  return sums;
}

/// Ends of the best runs over costs[0, n), where a cut's value is `join(value of the runs before,
/// cost of the last)` and less is better.
template <class Join>
std::vector<std::int64_t> best_cut(const std::vector<double>& sums, std::int64_t runs, Join join) {
  const auto n = static_cast<std::int64_t>(sums.size()) - 1;
  const auto at = [n](std::int64_t run, std::int64_t end) {
    return static_cast<std::size_t>(run * (n + 1) + end);
  };
  std::vector<double> value(at(runs, n) + 1, kNever);
  std::vector<std::int64_t> begin(value.size(), 0);  // of the last run
  value[at(0, 0)] = 0;
  for (std::int64_t run = 1; run <= runs; ++run) {
    for (std::int64_t end = run; end <= n; ++end) {
      for (std::int64_t start = run - 1; start < end; ++start) {
        const double candidate =
            join(value[at(run - 1, start)],
                 sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(start)]);
        if (candidate < value[at(run, end)]) {
          value[at(run, end)] = candidate;
          begin[at(run, end)] = start;
        }
      }
    }
  }
  std::vector<std::int64_t> ends(static_cast<std::size_t>(runs));
  std::int64_t end = n;
  for (std::int64_t run = runs; run >= 1; --run) {
    ends[static_cast<std::size_t>(run - 1)] = end;
    end = begin[at(run, end)];
  }
  return ends;
}

}  // namespace

std::vector<std::int64_t> partition_contiguous(std::span<const double> costs, std::int64_t runs) {
  SWARMPI_CHECK(runs >= 1 && runs <= static_cast<std::int64_t>(costs.size()),
                "every run needs an element");
  const std::vector<double> sums = prefix_sums(costs);
  const auto costliest = [](double before, double last) { return std::max(before, last); };
  const std::vector<std::int64_t> cheapest = best_cut(sums, runs, costliest);
  double limit = 0;
  std::size_t start = 0;
  for (const std::int64_t end : cheapest) {
    limit = std::max(limit, sums[static_cast<std::size_t>(end)] - sums[start]);
    start = static_cast<std::size_t>(end);
  }
  return best_cut(sums, runs, [limit](double before, double last) {
    return last > limit ? kNever : before + last * last;
  });
}

}  // namespace swarmpi
