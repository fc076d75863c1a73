#include "io/rows/row_thinning.hpp"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "io/test_support.hpp"

namespace swarmpi::row_thinning_test {
namespace {

using Kept = std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>>;

/// What is kept of steps that take so long each, on so many peers.
Kept kept(RowThinning& thinning, std::int64_t from, std::int64_t steps, std::int64_t peers,
          double seconds) {
  Kept rows;
  for (std::int64_t step = from; step < from + steps; ++step) {
    StepRow row = step_row(step);
    row.time_s = static_cast<double>(step) * seconds;
    EXPECT_TRUE(thinning.keeps(row));
    EXPECT_TRUE(thinning.keeps(ThroughputRow{row.time_s, 1, 1}));
    for (std::int64_t peer = 0; peer < peers; ++peer) {
      if (thinning.keeps(PeerRow{step, peer, 0})) rows.insert({step, peer, 0});
    }
  }
  return rows;
}

TEST(RowThinning, OfASlowRunEachRowIsKept) {
  RowThinning thinning;
  EXPECT_EQ(kept(thinning, 0, 1000, 16, 0.01).size(), 16'000u) << "96,000 a minute";
}

TEST(RowThinning, OfAFastRunSoManyAMinute) {
  RowThinning thinning;
  const Kept rows = kept(thinning, 0, 30'000, 16, 0.001);  // half a minute
  EXPECT_NEAR(static_cast<double>(rows.size()), RowThinning::kRowsPerMinute / 2, 700);
  std::set<std::int64_t> peers;
  for (const auto& [step, peer, stage] : rows) peers.insert(peer);
  EXPECT_EQ(peers.size(), 16u);
}

// Another leader makes some steps again, which take as long: it keeps the same rows.
TEST(RowThinning, WhichRowsAreKeptDoesNotDependOnWhoKeepsThem) {
  RowThinning first, second;
  const Kept of_first = kept(first, 0, 2000, 16, 0.001);
  Kept expected;
  for (const auto& row : of_first) {
    if (std::get<0>(row) > 1000) expected.insert(row);
  }
  Kept of_second = kept(second, 999, 1001, 16, 0.001);
  std::erase_if(of_second, [](const auto& row) { return std::get<0>(row) <= 1000; });
  EXPECT_EQ(of_second, expected);
}

TEST(RowThinning, ARunThatGoesBackIsThinnedAsBefore) {
  RowThinning thinning;
  (void)kept(thinning, 0, 2000, 16, 0.001);
  EXPECT_NEAR(static_cast<double>(kept(thinning, 500, 1000, 16, 0.001).size()), 1667, 150);
}

// Of each peer the sum stays what it was, whatever is kept.
TEST(RowThinning, OfThePeersTimeNothingIsLost) {
  RowThinning thinning;
  (void)kept(thinning, 0, 1000, 16, 0.0001);
  double sum_s = 0;
  std::int64_t rows = 0;
  for (std::int64_t step = 1000; step < 2000; ++step) {
    for (std::int64_t peer = 0; peer < 2; ++peer) {
      const auto row = thinning.thinned({.step = step, .peer = peer, .idle_s = 1});
      rows += row ? 1 : 0;
      sum_s += row ? row->idle_s : 0;
    }
  }
  EXPECT_LT(rows, 200);
  for (const GoodputRow& row : thinning.rest()) sum_s += row.idle_s;
  EXPECT_EQ(sum_s, 2000);
  EXPECT_TRUE(thinning.rest().empty());
}

}  // namespace
}  // namespace swarmpi::row_thinning_test
