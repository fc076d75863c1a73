#include "protocol/membership/stage_needs.hpp"

#include <gtest/gtest.h>

#include "core/records.hpp"
#include "protocol/messages/load_facts.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::stage_needs_test {
namespace {

// Peers 0 and 1 serve stage 0, peer 2 serves stage 1, which costs twice as much.
struct Scene {
  Scene() {
    for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
    view.serve(PeerId(2), StageId(1));
    plan.stage_costs = {1, 2};
  }
  void took(std::int64_t peer, std::int64_t stage, double compute_s, std::int64_t microbatches) {
    PeerRow row;
    row.peer = peer;
    row.stage = stage;
    row.compute_s = compute_s;
    row.microbatches = microbatches;
    times.enter({row});
  }
  std::vector<double> needs(NewcomerPolicy policy) {
    plan.swarm.newcomers = policy;
    return stage_needs(plan, view, departures, times, loads);
  }

  RunPlan plan = testing::tiny_plan(2, 9);
  View view;
  Departures departures;
  MeasuredTimes times;
  std::map<StageId, double> loads;
};

using enum NewcomerPolicy;

TEST(StageNeeds, EvenGoesByCost) { EXPECT_EQ(Scene().needs(even), (std::vector<double>{1, 2})); }

TEST(StageNeeds, WeakestGoesByMeasuredCapacity) {
  Scene scene;
  scene.took(0, 0, 8, 4);
  scene.took(1, 0, 4, 2);
  EXPECT_EQ(scene.needs(weakest), scene.plan.stage_costs) << "stage 1 was not measured";
  scene.took(2, 1, 1, 2);
  scene.took(2, 1, 0, 0);  // a step in which it did nothing
  EXPECT_EQ(scene.needs(weakest), (std::vector<double>{2, 0.5}));
}

TEST(StageNeeds, OnlyThoseThatStayCount) {
  Scene scene;
  scene.took(0, 0, 1, 1);
  scene.took(1, 0, 9, 1);
  scene.took(2, 1, 1, 1);
  scene.view.set_leaving(PeerId(1), StageId(0), true);
  EXPECT_EQ(scene.needs(weakest), (std::vector<double>{1, 1}));
}

TEST(StageNeeds, LoadedGoesByLoad) {
  Scene scene;
  scene.loads = {{StageId(0), 3.0}};
  EXPECT_EQ(scene.needs(loaded), scene.plan.stage_costs) << "of stage 1 nothing is known";
  scene.loads[StageId(1)] = 5;
  EXPECT_EQ(scene.needs(loaded), (std::vector<double>{6, 5})) << "to be divided by the peers";
}

}  // namespace
}  // namespace swarmpi::stage_needs_test
