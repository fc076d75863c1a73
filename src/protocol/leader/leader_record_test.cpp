#include "protocol/leader/leader_record.hpp"

#include <gtest/gtest.h>

#include "protocol/membership/failure_detector.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::leader_record_test {
namespace {

using testing::tiny_plan;

// Peer 4 leads; at time 2 of its clock 30 s of the run have gone by, and step 7 was committed at
// 25 s.
struct Scene {
  static ResumeState after_step_seven() {
    ResumeState state;
    state.step = 7;
    state.time_s = 25;
    return state;
  }
  // The events that were stored since the last call.
  std::vector<EventRow> stored() {
    std::vector<EventRow> events;
    for (const Action& action : outbox.take()) {
      const auto* store = get_if<StoreRecord>(&action);
      const auto* event = store == nullptr ? nullptr : std::get_if<EventRow>(&store->row);
      if (event != nullptr) events.push_back(*event);
    }
    return events;
  }

  RunPlan plan = tiny_plan(1, 9);
  CommitLog commit_log{plan, after_step_seven()};
  Outbox outbox;
  double now_s = 2;
  LeaderRecord record{PeerId(4), plan, commit_log, outbox, Term(1), 28, now_s};
};

TEST(LeaderRecord, AnEventHasTheTimeOfTheRunAndWhomItConcerns) {
  Scene scene;
  scene.record.store_event(EventKind::repair, 8, 0.5, "of this leader");
  scene.record.store_peer_event(EventKind::join, PeerId(9), StageId(1), "");
  scene.record.store_stage_event(EventKind::dropped, {}, 0, "of nobody");
  const auto events = scene.stored();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].time_s, 30);
  EXPECT_EQ(events[0].peer, 4);
  EXPECT_EQ(events[0].step, 8);
  EXPECT_EQ(events[0].cost_s, 0.5);
  EXPECT_EQ(events[1].peer, 9);
  EXPECT_EQ(events[1].stage, 1);
  EXPECT_EQ(events[1].step, 7) << "the committed one";
  EXPECT_EQ(events[2].peer, -1);
  EXPECT_EQ(events[2].stage, -1);
}

TEST(LeaderRecord, TheTimeOfTheRunNeverGoesBack) {
  Scene scene;
  scene.record.go_on_from(20);  // an older step than this leader knew of
  EXPECT_EQ(scene.record.run_time_s(), 30);
  scene.record.go_on_from(70);  // the leader before was further
  EXPECT_EQ(scene.record.run_time_s(), 70);
  scene.now_s = 5;
  EXPECT_EQ(scene.record.run_time_s(), 73);
  EXPECT_EQ(scene.record.clock_at(73), 5);
}

TEST(LeaderRecord, BeforeADeathThatFollowsFromASuspicionStandsTheSuspicion) {
  Scene scene;
  scene.record.store_death(PeerId(2), "was lost", {});
  scene.record.store_death(PeerId(3), "was lost", Suspicion{2.5, "it was silent"});
  const auto events = scene.stored();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, EventKind::kill);
  EXPECT_EQ(events[1].kind, EventKind::suspect);
  EXPECT_EQ(events[1].cost_s, 2.5);
  EXPECT_EQ(events[2].kind, EventKind::kill);
  EXPECT_EQ(events[2].detail, "was lost; it was killed because it was silent");
}

TEST(LeaderRecord, FaultsBeforeTheLastStepWereStoredByWhoeverLedThen) {
  RunPlan plan = tiny_plan(1, 9);
  plan.faults_by_clock = {{24, FaultEvent::stop, 1}, {26, FaultEvent::cut, 2}};
  const CommitLog commit_log(plan, Scene::after_step_seven());
  Scene scene;
  LeaderRecord record(PeerId(4), plan, commit_log, scene.outbox, Term(1), 28, scene.now_s);
  record.store_faults();
  const auto events = scene.stored();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::cut);
  EXPECT_EQ(events[0].time_s, 26);
}

TEST(LeaderRecord, TheNextRowTellsOfALifeThatHasEnded) {
  Scene scene;
  scene.record.lives().joined(PeerId(2), 1);
  scene.record.end_life(PeerId(2), &GoodputRow::repeated_s);
  scene.record.store_event(EventKind::repair, 7, 0, "");
  const Actions actions = scene.outbox.take();
  ASSERT_EQ(actions.size(), 1u);
  const auto& goodput = get<StoreRecord>(actions[0]).goodput;
  ASSERT_EQ(goodput.size(), 1u);
  EXPECT_EQ(goodput[0].peer, 2);
  EXPECT_EQ(goodput[0].repeated_s, 1);
}

}  // namespace
}  // namespace swarmpi::leader_record_test
