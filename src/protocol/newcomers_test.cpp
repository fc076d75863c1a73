// A leader that has processes started in the place of those that are gone.

#include <gtest/gtest.h>

#include <memory>

#include "protocol/fake_world_test.hpp"
#include "protocol/leader.hpp"

namespace swarmpi {
namespace {

constexpr PeerId kNewcomer{4};

// Leads three peers of the start, and maybe the one who has joined since and leads now.
struct Scene {
  explicit Scene(PeerId self = PeerId(0)) {
    plan.recovers = true;
    plan.swarm.spawn = true;
    Succession succession;
    succession.term = Term(1);
    for (const PeerId peer : {self, PeerId(1)}) succession.view.members[peer] = {StageId(0)};
    succession.view.members[PeerId(2)] = {StageId(1)};
    succession.workers = succession.peers = 3;
    succession.newest_at_start = PeerId(2);
    leader = std::make_unique<Leader>(self, plan, CommitLog(plan, {}), succession, outbox, now_s);
    leader->begin({});
    calls_until(1);
  }
  // How often it calls for a process until then; all answer it at once.
  int calls_until(double until_s) {
    int calls = 0;
    for (; now_s <= until_s; now_s += 0.05) {
      leader->set_now(now_s);
      leader->lead();
      for (const Action& action : outbox.take()) {
        calls += std::holds_alternative<SpawnPeer>(action) ? 1 : 0;
        const auto* send = std::get_if<Send>(&action);
        if (send == nullptr || !std::holds_alternative<ViewMessage>(send->message.body)) continue;
        TableMessage table;
        table.view = leader->view().number;
        leader->receive(table, send->to);
      }
    }
    return calls;
  }

  RunPlan plan = testing::tiny_plan(2, 4);
  Outbox outbox;
  std::unique_ptr<Leader> leader;
  double now_s = 0;
};

TEST(Newcomers, NobodyIsCalledWhileAllAreHere) {
  Scene scene;
  EXPECT_EQ(scene.calls_until(10), 0);
}

TEST(Newcomers, OneIsCalledForOneWhoIsGoneOnceItIsCalm) {
  Scene scene;
  scene.leader->lost(PeerId(1), "");
  EXPECT_EQ(scene.calls_until(1.2), 0);
  EXPECT_EQ(scene.calls_until(10), 1) << "and not another before that one is answered";
  scene.leader->receive(PeerSpawned{kNewcomer, 0.1});
  EXPECT_EQ(scene.calls_until(20), 0) << "it is on its way";
  scene.leader->receive(JoinMessage{kNewcomer}, kNewcomer);
  EXPECT_EQ(scene.calls_until(40), 0);
}

TEST(Newcomers, WhoDoesNotArriveIsReplacedAfterAWhile) {
  Scene scene;
  scene.leader->lost(PeerId(1), "");
  EXPECT_EQ(scene.calls_until(2), 1);
  scene.leader->receive(PeerSpawned{kNewcomer, 0.1});
  scene.leader->lost(kNewcomer, "");
  EXPECT_EQ(scene.calls_until(3.5), 0);
  EXPECT_EQ(scene.calls_until(5), 1);
  scene.leader->receive(PeerSpawned{PeerId(7), 0.1});
  EXPECT_EQ(scene.calls_until(120), 0);
  EXPECT_EQ(scene.calls_until(130), 1) << "nobody waits for ever";
}

TEST(Newcomers, AfterFailuresThePausesGrow) {
  Scene scene;
  scene.leader->lost(PeerId(1), "");
  EXPECT_EQ(scene.calls_until(2), 1);
  scene.leader->receive(SpawnFailed{"no room"});
  EXPECT_EQ(scene.calls_until(3.9), 0);
  EXPECT_EQ(scene.calls_until(4.2), 1);
  scene.leader->receive(SpawnFailed{"no room"});
  EXPECT_EQ(scene.calls_until(8.1), 0);
  EXPECT_EQ(scene.calls_until(8.4), 1);
}

TEST(Newcomers, WhoHasJoinedLaterCallsNobody) {
  Scene scene(PeerId(3));
  scene.leader->lost(PeerId(1), "");
  EXPECT_EQ(scene.calls_until(10), 0);
}

TEST(Newcomers, NobodyIsCalledUnlessTheDeckSaysSo) {
  Scene scene;
  scene.plan.swarm.spawn = false;
  scene.leader->lost(PeerId(1), "");
  EXPECT_EQ(scene.calls_until(10), 0);
}

}  // namespace
}  // namespace swarmpi
