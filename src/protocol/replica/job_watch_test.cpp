#include "protocol/replica/job_watch.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::job_watch_test {
namespace {

// A peer with a patience of 1 s. A job of its kind takes 0.1 s.
struct Scene {
  Scene() {
    plan.swarm.suspect_after_s = 1;
    plan.job_timeout_s = 100;
    watch.begin(job(), 0);
    watch.end(0.1);
    watch.begin(job(), 0);
  }
  static Job job() { return ForwardJob{{{Step(1), Purpose::train, 0}, StageId(0)}, nullptr}; }

  RunPlan plan = testing::tiny_plan(1, 2);
  JobWatch watch{plan};
};

TEST(JobWatch, AJobThatUsesNoCpuIsLateAfterManyTimesThePatience) {
  Scene scene;
  EXPECT_FALSE(scene.watch.wants_probe(0.9));
  EXPECT_TRUE(scene.watch.wants_probe(1));
  scene.watch.probed(5, 1);
  scene.watch.probed(5, 9.9);
  EXPECT_FALSE(scene.watch.late_s(9.9)) << "ten times the patience is more";
  EXPECT_EQ(scene.watch.late_s(10), 10);
  scene.watch.end(11);
  EXPECT_FALSE(scene.watch.late_s(12));
}

TEST(JobWatch, OneThatUsesCpuIsSlowAndNotLate) {
  Scene scene;
  for (double now_s = 1; now_s < 60; now_s += 0.5) {
    scene.watch.probed(now_s / 4, now_s);
    EXPECT_FALSE(scene.watch.late_s(now_s)) << now_s;
  }
}

TEST(JobWatch, AfterItsTimeoutItIsLateInAnyCase) {
  Scene scene;
  scene.watch.probed(50, 99);
  EXPECT_FALSE(scene.watch.late_s(99));
  EXPECT_EQ(scene.watch.late_s(100), 100);
}

TEST(JobWatch, OneThatOthersOfItsKindTakeLongForHasLong) {
  Scene scene;
  scene.watch.end(0.1);
  scene.watch.begin(Scene::job(), 0);
  scene.watch.end(2);
  scene.watch.begin(Scene::job(), 0);
  scene.watch.end(2);
  scene.watch.begin(Scene::job(), 0);  // median 2 s: thirty times that
  scene.watch.probed(5, 1);
  EXPECT_FALSE(scene.watch.late_s(59));
  EXPECT_TRUE(scene.watch.late_s(60));
}

TEST(JobWatch, TheFirstOfItsKindHasItsTimeout) {
  Scene scene;
  scene.watch.end(0.1);
  scene.watch.begin(PrepareJob{StageId(0), Step(1)}, 0);
  scene.watch.probed(5, 1);
  EXPECT_FALSE(scene.watch.late_s(99));
  EXPECT_TRUE(scene.watch.late_s(100));
}

}  // namespace
}  // namespace swarmpi::job_watch_test
