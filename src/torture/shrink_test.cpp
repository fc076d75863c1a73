#include "torture/shrink.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "torture/swarm_check.hpp"

namespace swarmpi::shrink_test {
namespace {

TEST(Shrink, LeavesWhatTheFailureNeedsAndNothingElse) {
  std::uint64_t seed = 0;
  const auto large = [](const RandomSwarm& swarm) {
    return swarm.faults.all.size() >= 4 && swarm.plan.stages() >= 3 &&
           swarm.plan.train.microbatches >= 5 && swarm.plan.train.steps >= 3 && !swarm.stop;
  };
  while (!large(draw_tortured_swarm(seed))) ++seed;
  const RandomSwarm swarm = draw_tortured_swarm(seed);
  const Fault culprit = swarm.faults.all[2];
  const RandomSwarm smallest = shrink(swarm, [&](const RandomSwarm& smaller) {
    const auto& kills = smaller.faults.all;
    const bool kept = std::any_of(kills.begin(), kills.end(), [&](const Fault& kill) {
      return kill.victim_seed == culprit.victim_seed;
    });
    return kept && smaller.plan.train.microbatches >= 3 && smaller.plan.stages() >= 2;
  });
  EXPECT_EQ(smallest.faults.all.size(), 1u);
  EXPECT_EQ(smallest.faults.all[0].count, 1);
  EXPECT_EQ(smallest.plan.train.microbatches, 3);
  EXPECT_EQ(smallest.model.microbatches, 3);
  EXPECT_EQ(smallest.plan.train.steps, 1);
  EXPECT_EQ(smallest.plan.stages(), 2);
  EXPECT_EQ(smallest.membership.workers.size(), 1u);
  EXPECT_TRUE(smallest.membership.spares.empty());
  EXPECT_TRUE(can_serve_all_stages(smallest));
}

TEST(Shrink, WhatIsShrunkStillRuns) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RandomSwarm swarm = draw_tortured_swarm(mix_bits(seed));
    swarm.faults.all.clear();
    swarm.stop.reset();
    std::int64_t left = 12;  // cuts that are taken
    const RandomSwarm smaller = shrink(swarm, [&](const RandomSwarm& next) {
      EXPECT_EQ(check_swarm(next).violation, "") << next.text();
      return left-- > 0;
    });
    EXPECT_LE(smaller.plan.stages(), swarm.plan.stages());
  }
}

TEST(Shrink, GivesUpInTime) {
  std::int64_t trials = 0;
  shrink(
      draw_tortured_swarm(1),
      [&](const RandomSwarm&) {
        ++trials;
        return false;
      },
      10);
  EXPECT_LE(trials, 10);
}

}  // namespace
}  // namespace swarmpi::shrink_test
