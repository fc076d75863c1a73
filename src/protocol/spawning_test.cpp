// When a leader spawns processes in the place of peers that are gone.

#include <gtest/gtest.h>

#include <memory>

#include "protocol/leader.hpp"
#include "protocol/membership/hearing_test.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/message_traits.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/transport_port.hpp"
#include "protocol/messages/views.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::spawning_test {
namespace {

constexpr PeerId kNewcomer{4};

// Peers 1 and 2 of the start, and `self`, which leads: peer 0, or one that has joined since.
struct SpawningLeader {
  explicit SpawningLeader(PeerId self = PeerId(0)) {
    plan.recovers = true;
    plan.swarm.spawn = true;
    Succession succession;
    succession.term = Term(1);
    for (const PeerId peer : {self, PeerId(1)}) succession.view.serve(peer, StageId(0));
    succession.view.serve(PeerId(2), StageId(1));
    succession.at_start.workers = succession.at_start.peers = 3;
    succession.at_start.highest_id_at_start = PeerId(2);
    leader = std::make_unique<Leader>(self, plan, CommitLog(plan, {}), succession, outbox,
                                      hearing.detector, now_s);
    leader->begin({});
    spawns_until(1);
  }
  // How often it spawns a process until then; every peer answers a view with its table at once.
  int spawns_until(double until_s) {
    int spawns = 0;
    for (; now_s <= until_s; now_s += 0.05) {
      leader->lead();
      for (const Action& action : outbox.take()) {
        spawns += holds_alternative<SpawnPeer>(action) ? 1 : 0;
        const auto* send = get_if<Send>(&action);
        if (send == nullptr || !holds_alternative<ViewMessage>(send->message.body)) continue;
        TableMessage table;
        table.view = leader->view().number;
        leader->receive(table, send->to);
      }
    }
    return spawns;
  }

  RunPlan plan = testing::tiny_plan(2, 4);
  Outbox outbox;
  testing::Hearing hearing{plan, 3};
  std::unique_ptr<Leader> leader;
  double now_s = 0;
};

TEST(Spawning, NoneIsSpawnedWhileNobodyIsMissing) {
  SpawningLeader scene;
  EXPECT_EQ(scene.spawns_until(10), 0);
}

TEST(Spawning, OneIsSpawnedForEachPeerThatIsGoneAfterAPause) {
  SpawningLeader scene;
  scene.leader->lost(PeerId(1), "");
  EXPECT_EQ(scene.spawns_until(1.2), 0);
  EXPECT_EQ(scene.spawns_until(10), 1) << "and not another before that one is answered";
  scene.leader->receive(PeerSpawned{kNewcomer, 0.1});
  EXPECT_EQ(scene.spawns_until(20), 0) << "it is on its way";
  scene.leader->receive(JoinMessage{kNewcomer}, kNewcomer);
  EXPECT_EQ(scene.spawns_until(40), 0);
}

TEST(Spawning, SoDoesALeaderThatHasJoinedLater) {
  SpawningLeader scene(PeerId(3));
  scene.leader->lost(PeerId(1), "");
  EXPECT_EQ(scene.spawns_until(10), 1);
}

TEST(Spawning, NoneIsSpawnedUnlessTheDeckAllowsIt) {
  SpawningLeader scene;
  scene.plan.swarm.spawn = false;
  scene.leader->lost(PeerId(1), "");
  EXPECT_EQ(scene.spawns_until(10), 0);
}

}  // namespace
}  // namespace swarmpi::spawning_test
