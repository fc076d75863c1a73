#include "simulator/world.hpp"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "simulator/random_swarm.hpp"
#include "simulator/trace.hpp"

namespace swarmpi {
namespace {

// Everything that was sent and what arrived, by pair of peers.
class Postmark final : public Observer {
 public:
  void happened(double now_s, PeerId peer, const Event& event) override {
    if (const auto* arrived = std::get_if<MessageArrived>(&event)) {
      const std::string text = describe(arrived->message);
      came[{arrived->from, peer}].push_back(text);
      order.push_back(text + std::to_string(now_s));
    }
  }
  void asked(double, PeerId peer, const Action& action) override {
    if (const auto* send = std::get_if<Send>(&action)) {
      sent[{peer, send->to}].push_back(describe(send->message));
    }
  }
  using ByPair = std::map<std::pair<PeerId, PeerId>, std::vector<std::string>>;
  ByPair sent, came;
  std::vector<std::string> order;
};

// A swarm with jumpy links, in which messages would overtake each other.
RandomSwarm jumpy_swarm(std::uint64_t seed) {
  RandomSwarm swarm = draw_swarm(seed);
  swarm.stop.reset();
  swarm.links.jitter = 10;
  swarm.links.spike_chance = 0.1;
  return swarm;
}

Postmark run_jumpy(std::uint64_t seed) {
  const RandomSwarm swarm = jumpy_swarm(seed);
  VirtualDisk disk;
  Postmark postmark;
  const SwarmEnd end = run(swarm, {}, *make_workshop(swarm), disk, &postmark);
  EXPECT_EQ(end.fault, "");
  return postmark;
}

TEST(VirtualWorld, KeepsTheOrderOfEachPairAndNoOther) {
  std::size_t crossed = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Postmark postmark = run_jumpy(seed);
    for (const auto& [pair, came] : postmark.came) {
      const auto& sent = postmark.sent.at(pair);
      // What is on its way when the receiver has finished does not arrive.
      ASSERT_LE(came.size(), sent.size());
      for (std::size_t i = 0; i < came.size(); ++i) ASSERT_EQ(came[i], sent[i]);
    }
    crossed += postmark.came.size();
  }
  EXPECT_GT(crossed, 100u);
}

TEST(VirtualWorld, OneSeedIsOneRun) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Postmark first = run_jumpy(seed);
    EXPECT_EQ(first.order, run_jumpy(seed).order);
    EXPECT_NE(first.order, run_jumpy(seed + 100).order);
  }
}

// ---- What the later layers will do to a world

struct Scene {
  explicit Scene(std::uint64_t seed) : swarm(draw_swarm(seed)) {
    swarm.stop.reset();
    swarm.plan.swarm.heartbeat_s = 0.2;
    swarm.costs.second_per_pass = 1e-3;
  }
  // The first swarm with so many workers at least.
  static Scene with_workers(std::size_t workers) {
    std::uint64_t seed = 0;
    while (draw_swarm(seed).roster.workers.size() < workers) ++seed;
    return Scene(seed);
  }
  void build(LinkModel& links, DiskModel& disks) {
    world.emplace(links, costs, disks, disk);
    for (const PeerId id : swarm.roster.all()) {
      computes.push_back(workshop->make(id, swarm.plan, swarm.roster, {}));
      world->add(id, std::make_unique<Peer>(id, swarm.plan, swarm.roster, ResumeState{}),
                 *computes.back(), 0, 0);
    }
  }
  RandomSwarm swarm;
  RandomCosts costs{swarm.seed, swarm.costs, swarm.plan};
  std::unique_ptr<Workshop> workshop = make_workshop(swarm);
  std::vector<std::unique_ptr<VirtualCompute>> computes;
  VirtualDisk disk;
  std::optional<VirtualWorld> world;
};

TEST(VirtualWorld, APeerThatIsRemovedIsMissedByTheOthers) {
  Scene scene = Scene::with_workers(4);
  RandomLinks links(1, {});
  RandomDisks disks(1, 1e-3);
  scene.build(links, disks);
  while (scene.world->events() < 50 && scene.world->step()) {
  }
  const PeerId victim = scene.swarm.roster.workers.back();
  scene.world->remove(victim);
  const PeerId leader = scene.swarm.roster.workers.front();
  scene.world->post(scene.world->now_s() + 0.1, leader, PeerLost{victim});
  while (scene.world->now_s() < 60 && scene.world->step()) {
  }
  ASSERT_TRUE(scene.world->all_done()) << scene.world->waiting_for();
  EXPECT_EQ(scene.world->peer(leader).status().code(), ExitStatus::stopped);
}

TEST(VirtualWorld, ADiskThatFailsSaysSoAndWritesNothingMore) {
  class FullDisk final : public DiskModel {
   public:
    WriteAnswer write(PeerId, const Action&) override {
      if (++writes < 10) return {1e-4, {}};
      return {1e-4, Status::stopped("no space left")};
    }
    int writes = 0;
  };
  Scene scene = Scene::with_workers(2);
  RandomLinks links(1, {});
  FullDisk disks;
  scene.build(links, disks);
  while (scene.world->now_s() < 60 && scene.world->step()) {
  }
  ASSERT_TRUE(scene.world->all_done()) << scene.world->waiting_for();
  for (const PeerId id : scene.swarm.roster.all()) {
    EXPECT_EQ(scene.world->peer(id).status().code(), ExitStatus::stopped);
    EXPECT_EQ(scene.world->peer(id).status().message(), "no space left");
  }
  EXPECT_LT(scene.disk.journal.size(), 10u);
  EXPECT_FALSE(scene.disk.complete);
}

}  // namespace
}  // namespace swarmpi
