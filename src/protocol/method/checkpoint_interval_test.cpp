#include "protocol/method/checkpoint_interval.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace swarmpi::checkpoint_interval_test {
namespace {

RunPlan plan(double between_deaths_s) {
  RunPlan plan;
  plan.swarm.method = Method::gpipe;
  plan.between_deaths_s = between_deaths_s;
  return plan;
}

// The time lost to checkpoints and deaths, as a share of all: a checkpoint each `interval_s`, and
// half an interval for each death.
double lost(double interval_s, double checkpoint_s, double between_deaths_s) {
  return checkpoint_s / interval_s + (interval_s / 2 + checkpoint_s) / between_deaths_s;
}

TEST(BestInterval, LosesLeast) {
  const double best_s = best_interval_s(2, 10'000);
  EXPECT_NEAR(best_s, 200, 3) << "the square root of 2 * 2 * 10,000, less what a checkpoint takes";
  EXPECT_LT(lost(best_s, 2, 10'000), lost(0.8 * best_s, 2, 10'000));
  EXPECT_LT(lost(best_s, 2, 10'000), lost(1.2 * best_s, 2, 10'000));
}

TEST(BestInterval, WhereCheckpointsTakeAsLongAsPeersLiveOneFollowsTheOther) {
  EXPECT_EQ(best_interval_s(50, 10), 10);
  EXPECT_NEAR(best_interval_s(19.999, 10), 10 * (2 + 2. / 3 + 2. / 9) - 20, 0.01);
}

// Steps of 0.5 s; a death each 400 s.
struct SteadySteps {
  bool due(std::int64_t step) { return interval.due(Step(step), 0.5 * static_cast<double>(step)); }
  // The first of these steps after which one is due.
  std::int64_t next(std::int64_t from, std::int64_t end) {
    while (from < end && !due(from)) ++from;
    return from;
  }
  RunPlan of = plan(400);
  CheckpointInterval interval{of, 0};
};

TEST(CheckpointInterval, TheFirstTellsHowLongTheOthersTakeAndComesAlone) {
  SteadySteps run;
  EXPECT_FALSE(run.due(0)) << "step 0 changes nothing";
  EXPECT_TRUE(run.due(1));
  EXPECT_FALSE(run.due(2)) << "it is being written";
  EXPECT_EQ(run.interval.measured(0.5),
            "one in 39 steps from now on (Young, Daly): a checkpoint took 0.5 s, a step takes 0.5 "
            "s, a death comes each 400 s");
  EXPECT_EQ(run.next(3, 100), 40);
  EXPECT_FALSE(run.due(41));
  EXPECT_EQ(run.interval.measured(0.5), "") << "nothing new";
}

TEST(CheckpointInterval, AfterGoingBackItCountsFromThere) {
  SteadySteps run;
  run.due(0);
  run.due(1);
  run.interval.measured(0.5);
  EXPECT_EQ(run.next(2, 100), 40);
  run.interval.go_back(Step(20), 10);
  EXPECT_EQ(run.next(21, 100), 59);
}

TEST(CheckpointInterval, AFirstOneThatWasLostIsMadeAgain) {
  SteadySteps run;
  run.due(0);
  EXPECT_TRUE(run.due(1));
  run.interval.go_back(Step(-1), 0);
  EXPECT_FALSE(run.due(0));
  EXPECT_TRUE(run.due(1));
}

TEST(CheckpointInterval, ByTheDecksTimeWhoeverLeads) {
  RunPlan swarm;
  swarm.checkpoint_every_s = 600;
  CheckpointInterval first(swarm, 700);  // of a run that was resumed
  EXPECT_FALSE(first.due(Step(1), 1199));
  EXPECT_TRUE(first.due(Step(2), 1201));
  EXPECT_FALSE(first.due(Step(3), 1799));
  CheckpointInterval successor(swarm, 1799);
  EXPECT_TRUE(successor.due(Step(4), 1800)) << "though it is its first step";
  EXPECT_FALSE(successor.due(Step(5), 1801));
  EXPECT_TRUE(successor.due(Step(6), 9000)) << "one step may take longer";
  EXPECT_EQ(successor.measured(1), "");
}

TEST(CheckpointInterval, WhatADeathHasOvertakenIsDueAgain) {
  RunPlan swarm;
  swarm.checkpoint_every_s = 600;
  CheckpointInterval interval(swarm, 0);
  EXPECT_TRUE(interval.due(Step(9), 601));
  interval.go_back(Step(5), 400);
  EXPECT_TRUE(interval.due(Step(6), 650));
}

TEST(CheckpointInterval, NoTimeCountsForABenchmarkNorForWhoKnowsHowOftenPeersDie) {
  RunPlan benchmark;
  benchmark.checkpoint_every = -1;
  RunPlan pipelines = plan(400);
  for (RunPlan* one : {&benchmark, &pipelines}) {
    one->checkpoint_every_s = 1;
    CheckpointInterval interval(*one, 0);
    EXPECT_FALSE(interval.due(Step(0), 5));
    const bool first_of_pipelines = interval.due(Step(1), 10);
    EXPECT_EQ(first_of_pipelines, one == &pipelines);
    EXPECT_FALSE(interval.due(Step(2), 20));
  }
}

TEST(CheckpointInterval, TheDeckAndSwarmDecideWithoutIt) {
  RunPlan own = plan(400);
  own.checkpoint_every = 7;
  RunPlan swarm = plan(400);
  swarm.swarm.method = Method::swarm;
  const RunPlan unknown = plan(0);
  for (const RunPlan* other : std::initializer_list<const RunPlan*>{&own, &swarm, &unknown}) {
    CheckpointInterval interval(*other, 0);
    for (std::int64_t step = 0; step < 50; ++step) {
      EXPECT_FALSE(interval.due(Step(step), static_cast<double>(step)));
    }
    EXPECT_EQ(interval.measured(1), "");
  }
}

}  // namespace
}  // namespace swarmpi::checkpoint_interval_test
