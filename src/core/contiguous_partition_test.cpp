#include "core/contiguous_partition.hpp"

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace swarmpi::contiguous_partition_test {
namespace {

using Ends = std::vector<std::int64_t>;

TEST(Runs, EqualCostsAreCutEvenlyAndTheLastRunsTakeWhatIsLeft) {
  EXPECT_EQ(partition_contiguous(std::vector<double>(4, 1.0), 4), (Ends{1, 2, 3, 4}));
  EXPECT_EQ(partition_contiguous(std::vector<double>(8, 1.0), 4), (Ends{2, 4, 6, 8}));
  EXPECT_EQ(partition_contiguous(std::vector<double>(5, 1.0), 3), (Ends{1, 3, 5}));
  EXPECT_EQ(partition_contiguous(std::vector<double>(3, 1.0), 1), (Ends{3}));
}

TEST(Runs, ACostlyEndStandsAlone) {
  EXPECT_EQ(partition_contiguous(std::vector<double>{1, 1, 1, 1, 9}, 2), (Ends{4, 5}));
  EXPECT_EQ(partition_contiguous(std::vector<double>{1, 1, 1, 2}, 2), (Ends{2, 4}));
}

/// Costliest run of the best cut of costs[start, end), by trying all.
double costliest_by_trial(const std::vector<double>& costs, std::size_t start, std::int64_t runs) {
  double sum = 0;
  if (runs == 1) {
    for (std::size_t i = start; i < costs.size(); ++i) sum += costs[i];
    return sum;
  }
  double best = 1e300;
  for (std::size_t end = start + 1; end + static_cast<std::size_t>(runs) <= costs.size() + 1;
       ++end) {
    sum += costs[end - 1];
    best = std::min(best, std::max(sum, costliest_by_trial(costs, end, runs - 1)));
  }
  return best;
}

TEST(Runs, NoOtherCutHasACheaperCostliestRun) {
  for (std::uint32_t trial = 0; trial < 50; ++trial) {
    std::vector<double> costs(2 + trial % 9);
    for (std::size_t i = 0; i < costs.size(); ++i) {
      costs[i] = static_cast<double>(random_bits(1, Stream::test, trial, i) % 10);
    }
    const std::int64_t runs = 1 + trial % static_cast<std::uint32_t>(costs.size());
    double costliest = 0;
    std::size_t start = 0;
    for (const std::int64_t end : partition_contiguous(costs, runs)) {
      ASSERT_GT(static_cast<std::size_t>(end), start);
      double sum = 0;
      for (; start < static_cast<std::size_t>(end); ++start) sum += costs[start];
      costliest = std::max(costliest, sum);
    }
    EXPECT_EQ(start, costs.size());
    EXPECT_EQ(costliest, costliest_by_trial(costs, 0, runs)) << "trial " << trial;
  }
}

}  // namespace
}  // namespace swarmpi::contiguous_partition_test
