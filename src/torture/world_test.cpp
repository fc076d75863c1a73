#include "simulation/world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "simulation/event_trace.hpp"
#include "torture/random_swarm.hpp"

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
  const SwarmEnd end = run(swarm, {}, *make_compute_factory(swarm), disk, &postmark);
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
    while (draw_swarm(seed).membership.workers.size() < workers) ++seed;
    return Scene(seed);
  }
  void build(LinkModel& links, DiskModel& disks) {
    world.emplace(links, costs, disks, disk);
    for (const PeerId id : swarm.membership.all()) {
      computes.push_back(compute_factory->make(id, swarm.plan, swarm.membership, {}));
      world->add(id, std::make_unique<Peer>(id, swarm.plan, swarm.membership, ResumeState{}),
                 *computes.back(), 0, 0);
    }
  }
  RandomSwarm swarm;
  RandomCosts costs{swarm.seed, swarm.costs, swarm.plan};
  std::unique_ptr<ComputeFactory> compute_factory = make_compute_factory(swarm);
  std::vector<std::unique_ptr<VirtualCompute>> computes;
  VirtualDisk disk;
  std::optional<VirtualWorld> world;
};

// Kills one peer at a chosen point, and writes down who hears what of it.
class Murder final : public Observer {
 public:
  enum class At { happened, asked, handled };
  Murder(PeerId victim, At at, std::int64_t count) : victim_(victim), at_(at), left_(count) {}

  void happened(double now_s, PeerId peer, const Event& event) override {
    if (const auto* lost = std::get_if<PeerLost>(&event)) {
      EXPECT_EQ(lost->peer, victim_);
      EXPECT_TRUE(heard.insert(peer).second) << "twice";
    } else if (const auto* arrived = std::get_if<MessageArrived>(&event)) {
      if (arrived->from == victim_) came[peer].push_back(describe(arrived->message));
      if (arrived->from == victim_ && heard.contains(peer)) ++came_after_news;
    }
    if (dead && peer == victim_) ADD_FAILURE() << "the dead hear nothing";
    inject_fault(At::happened, now_s, peer);
  }
  void asked(double now_s, PeerId peer, const Action& action) override {
    if (dead && peer == victim_) ADD_FAILURE() << "the dead ask for nothing";
    inject_fault(At::asked, now_s, peer);
    const auto* send = std::get_if<Send>(&action);
    if (send != nullptr && peer == victim_ && !dead) {
      sent[send->to].push_back(describe(send->message));
    }
  }
  void handled(double now_s, PeerId peer) override { inject_fault(At::handled, now_s, peer); }

  VirtualWorld* world = nullptr;
  bool dead = false;
  std::set<PeerId> heard;
  std::map<PeerId, std::vector<std::string>> sent, came;
  int came_after_news = 0;

 private:
  void inject_fault(At at, double, PeerId peer) {
    if (at != at_ || peer != victim_ || --left_ != 0) return;
    dead = world->kill(victim_);
    EXPECT_TRUE(dead);
    EXPECT_FALSE(world->kill(victim_)) << "only once";
  }

  PeerId victim_;
  At at_;
  std::int64_t left_;
};

// Runs until nothing happens any more, or for a minute.
void run_out(VirtualWorld& world) {
  while (world.now_s() < 60 && world.step()) {
  }
}

TEST(VirtualWorld, OfWhatTheDeadHaveSentEachGetsTheBeginning) {
  std::size_t whole = 0, cut = 0;
  int came_after_news = 0;
  for (std::int64_t i = 1; i <= 60; ++i) {
    Scene scene = Scene::with_workers(4);
    RandomLinks links(static_cast<std::uint64_t>(i), {.most_s = 1e-2, .loss_known_most_s = 1e-2});
    RandomDisks disks(1, {.most_s = 1e-3});
    scene.build(links, disks);
    const PeerId victim = scene.swarm.membership.workers.back();
    Murder murder(victim, static_cast<Murder::At>(i % 3), i);
    murder.world = &*scene.world;
    scene.world->watch(murder);
    run_out(*scene.world);
    ASSERT_TRUE(murder.dead);
    for (const PeerId peer : scene.swarm.membership.all()) {
      if (peer == victim) continue;
      const auto& sent = murder.sent[peer];
      const auto& came = murder.came[peer];
      ASSERT_LE(came.size(), sent.size());
      ASSERT_TRUE(std::equal(came.begin(), came.end(), sent.begin()));
      (came.size() == sent.size() ? whole : cut) += 1;
    }
    came_after_news += murder.came_after_news;
  }
  EXPECT_GT(whole, 20u);
  EXPECT_GT(cut, 3u);
  EXPECT_GT(came_after_news, 0) << "what is on its way may come after the news of the death";
}

TEST(VirtualWorld, ADeathIsHeardOfByAllWhoHaveNotFinished) {
  Scene scene = Scene::with_workers(4);
  RandomLinks links(1, {});
  RandomDisks disks(1, {.most_s = 1e-3});
  scene.build(links, disks);
  const PeerId victim = scene.swarm.membership.workers.back();
  Murder murder(victim, Murder::At::handled, 30);
  murder.world = &*scene.world;
  scene.world->watch(murder);
  run_out(*scene.world);
  // A run that does not recover ends with the first loss.
  ASSERT_TRUE(scene.world->all_done()) << scene.world->waiting_for();
  const PeerId leader = scene.swarm.membership.workers.front();
  EXPECT_TRUE(scene.world->dead(victim));
  EXPECT_TRUE(murder.heard.contains(leader));
  EXPECT_EQ(scene.world->peer(leader).status().code(), ExitStatus::stopped);
  EXPECT_FALSE(scene.world->kill(leader)) << "it has finished";
}

TEST(VirtualWorld, WhoIsStoppedAgainWhileStoppedStillHearsAllInOrder) {
  Scene scene = Scene::with_workers(4);
  RandomLinks links(1, {});
  RandomDisks disks(1, {.most_s = 1e-3});
  scene.build(links, disks);
  Postmark postmark;
  scene.world->watch(postmark);
  const PeerId stopped = scene.swarm.membership.workers.back();
  for (int i = 0; scene.world->step(); ++i) {
    if (i % 10 == 0) scene.world->stop(stopped, 1e-3);
  }
  ASSERT_TRUE(scene.world->all_done()) << scene.world->waiting_for();
  for (const auto& [pair, came] : postmark.came) {
    const auto& sent = postmark.sent.at(pair);
    ASSERT_TRUE(std::equal(came.begin(), came.end(), sent.begin()))
        << "from " << pair.first.value << " to " << pair.second.value;
  }
}

TEST(VirtualWorld, WhatAWriterHasWrittenStaysThoughItDiesBeforeItHearsOfIt) {
  class DiesOfSuccess final : public Observer {
   public:
    void happened(double, PeerId peer, const Event& event) override {
      const auto* record = std::get_if<RecordDurable>(&event);
      if (record != nullptr && record->number == 3) world->kill(peer);
    }
    void asked(double, PeerId, const Action&) override {}
    VirtualWorld* world = nullptr;
  };
  Scene scene = Scene::with_workers(2);
  RandomLinks links(1, {});
  RandomDisks disks(1, {.most_s = 1e-3});
  scene.build(links, disks);
  DiesOfSuccess killer;
  killer.world = &*scene.world;
  scene.world->watch(killer);
  run_out(*scene.world);
  const PeerId leader = scene.swarm.membership.workers.front();
  ASSERT_TRUE(scene.world->dead(leader));
  ASSERT_EQ(scene.disk.journal.size(), 3u);
  EXPECT_EQ(scene.disk.journal.back().writer, leader);
  EXPECT_EQ(scene.disk.journal.back().term, scene.swarm.membership.first_term);
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
  for (const PeerId id : scene.swarm.membership.all()) {
    EXPECT_EQ(scene.world->peer(id).status().code(), ExitStatus::stopped);
    EXPECT_EQ(scene.world->peer(id).status().message(), "no space left");
  }
  EXPECT_LT(scene.disk.journal.size(), 10u);
  EXPECT_FALSE(scene.disk.complete());
}

}  // namespace
}  // namespace swarmpi
