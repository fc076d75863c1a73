#include "simulation/world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "protocol/messages/lanes.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/transport_port.hpp"
#include "simulation/event_trace.hpp"
#include "simulation/random_models.hpp"
#include "simulation/synthetic_compute.hpp"

namespace swarmpi::world_test {
namespace {

// All messages that were sent and that arrived, by pair of peers; but for those that overtake().
class MessageRecord final : public Observer {
 public:
  void happened(double now_s, PeerId peer, const Event& event) override {
    const auto* arrived = get_if<MessageArrived>(&event);
    if (arrived != nullptr && !overtakes(arrived->message)) {
      const std::string text = describe(arrived->message);
      came[{arrived->from, peer}].push_back(text);
      order.push_back(text + std::to_string(now_s));
    }
  }
  void asked(double, PeerId peer, const Action& action) override {
    const auto* send = get_if<Send>(&action);
    if (send != nullptr && !overtakes(send->message)) {
      sent[{peer, send->to}].push_back(describe(send->message));
    }
  }
  using ByPair = std::map<std::pair<PeerId, PeerId>, std::vector<std::string>>;
  ByPair sent, came;
  std::vector<std::string> order;
};

// Workers on two stages in a world. A death is not repaired: it ends the run.
struct Scene {
  explicit Scene(std::int64_t workers) : membership(make_membership(workers, 0)) {
    plan.train.steps = 5;
    plan.train.microbatches = model.microbatches;
    plan.tokens_per_microbatch = 10;
    plan.window = 6;
    for (int t = 0; t < 4; ++t) plan.tensor_names.push_back("tensor." + std::to_string(t));
    plan.tensor_elements = {100, 4096, 10'000, 1};
    plan.stage_tensors = {{0, 1}, {2, 3}};
    plan.stage_costs = {1, 2};
    plan.swarm.stages = 2;
  }
  void build(LinkModel& links, DiskModel& disks) {
    costs.emplace(1, RandomCostsPlan{}, plan);
    world.emplace(links, *costs, disks, disk);
    for (const PeerId id : membership.all()) {
      computes.push_back(compute_factory.make(id, plan, membership, {}));
      world->add(id, std::make_unique<Peer>(id, plan, membership, ResumeState{}), *computes.back(),
                 0, 0);
    }
  }
  // Delivers events until there are none, or for a minute.
  void run() {
    while (world->now_s() < 60 && world->step()) {
    }
  }

  RunPlan plan;
  SyntheticModel model{.seed = 1, .microbatches = 8};
  InitialMembership membership;
  SyntheticComputeFactory compute_factory{model};
  std::vector<std::unique_ptr<VirtualCompute>> computes;
  VirtualDisk disk;
  std::optional<RandomCosts> costs;
  std::optional<VirtualWorld> world;
};

// A run over links on which messages would overtake each other.
MessageRecord run_over_uneven_links(std::uint64_t seed) {
  Scene scene(5);
  RandomLinks links(seed, {.jitter = 10, .spike_chance = 0.1});
  RandomDisks disks(seed, {.most_s = 1e-3});
  scene.build(links, disks);
  MessageRecord record;
  scene.world->watch(record);
  scene.run();
  EXPECT_TRUE(scene.world->all_done()) << scene.world->waiting_for();
  EXPECT_TRUE(scene.world->violation().ok()) << scene.world->violation().message();
  EXPECT_TRUE(scene.disk.complete());
  return record;
}

TEST(VirtualWorld, KeepsTheOrderOfEachPairAndNoOther) {
  std::size_t pairs = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const MessageRecord record = run_over_uneven_links(seed);
    for (const auto& [pair, came] : record.came) {
      const auto& sent = record.sent.at(pair);
      // Messages that are under way when the receiver finishes do not arrive.
      ASSERT_LE(came.size(), sent.size());
      for (std::size_t i = 0; i < came.size(); ++i) ASSERT_EQ(came[i], sent[i]);
    }
    pairs += record.came.size();
  }
  EXPECT_GT(pairs, 100u);
}

// Links at which some messages wait before they leave, and of whom each said when it left.
class WaitingLinks final : public LinkModel {
 public:
  explicit WaitingLinks(std::uint64_t seed) : random_(seed, Stream::test, 0) {}
  Delivery deliver(PeerId, PeerId, const Message&, double) override {
    return {1e-4, 1, random_.fraction() < 0.5 ? 0 : 1e-3 * random_.fraction()};
  }
  double takes_s(PeerId from, PeerId, const Message&, const Delivery& delivery,
                 double now_s) override {
    last_left_s[from] = now_s;
    return delivery.delay_s;
  }
  std::map<PeerId, double> last_left_s;

 private:
  RandomStream random_;
};

TEST(VirtualWorld, WhatWaitsAtItsSenderKeepsTheOrderToo) {
  Scene scene(5);
  WaitingLinks links(1);
  RandomDisks disks(1, {.most_s = 1e-3});
  scene.build(links, disks);
  MessageRecord record;
  scene.world->watch(record);
  scene.run();
  ASSERT_TRUE(scene.world->all_done()) << scene.world->waiting_for();
  for (const auto& [pair, came] : record.came) {
    const auto& sent = record.sent.at(pair);
    ASSERT_TRUE(std::equal(came.begin(), came.end(), sent.begin()));
  }
  EXPECT_GT(record.came.size(), 10u);
}

// 25 MB are under way, a second's worth; a heartbeat waits for 1 MB of them, on an uplink for each
// of the two peers that something is sent to.
TEST(RandomLinks, AHeartbeatWaitsBehindAMegabyteAndAPongBehindAll) {
  for (const Queue queue : {Queue::pair, Queue::uplink}) {
    RandomLinks links(1, {.bytes_per_s = 25e6, .queue = queue});
    const auto arrives_in_s = [&](std::int32_t to, MessageBody body) {
      return links.deliver(PeerId(0), PeerId(to), {Incarnation(), {}, std::move(body)}, 0).delay_s;
    };
    arrives_in_s(2, HeartbeatMessage{});
    const auto sums = std::make_shared<Payload>(std::size_t{25'000'000});
    EXPECT_GT(arrives_in_s(1, ShareMessage{SealId{}, StageId(0), 0, {}, sums}), 1);
    EXPECT_LT(arrives_in_s(1, HeartbeatMessage{}), queue == Queue::uplink ? 0.085 : 0.045);
    EXPECT_GT(arrives_in_s(1, HeartbeatMessage{}), 0.04);
    EXPECT_GT(arrives_in_s(1, PongMessage{0}), 1);
  }
}

TEST(VirtualWorld, OneSeedIsOneRun) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const MessageRecord first = run_over_uneven_links(seed);
    EXPECT_EQ(first.order, run_over_uneven_links(seed).order);
    EXPECT_NE(first.order, run_over_uneven_links(seed + 100).order);
  }
}

// Kills one peer at a chosen point, and records what the others receive of it, but for what
// overtakes.
class KillAt final : public Observer {
 public:
  enum class At { happened, asked, handled };
  KillAt(PeerId victim, At at, std::int64_t count) : victim_(victim), at_(at), left_(count) {}

  void happened(double, PeerId peer, const Event& event) override {
    if (const auto* lost = get_if<PeerLost>(&event)) {
      EXPECT_EQ(lost->peer, victim_);
      EXPECT_TRUE(heard.insert(peer).second) << "twice";
    } else if (const auto* arrived = get_if<MessageArrived>(&event)) {
      if (arrived->from == victim_ && !overtakes(arrived->message))
        came[peer].push_back(describe(arrived->message));
      if (arrived->from == victim_ && heard.contains(peer)) ++came_after_loss;
    }
    if (dead && peer == victim_) ADD_FAILURE() << "the dead hear nothing";
    kill_at(At::happened, peer);
  }
  void asked(double, PeerId peer, const Action& action) override {
    if (dead && peer == victim_) ADD_FAILURE() << "the dead ask for nothing";
    kill_at(At::asked, peer);
    const auto* send = get_if<Send>(&action);
    if (send != nullptr && peer == victim_ && !dead && !overtakes(send->message)) {
      sent[send->to].push_back(describe(send->message));
    }
  }
  void handled(double, PeerId peer) override { kill_at(At::handled, peer); }

  VirtualWorld* world = nullptr;
  bool dead = false;
  std::set<PeerId> heard;
  std::map<PeerId, std::vector<std::string>> sent, came;
  int came_after_loss = 0;

 private:
  void kill_at(At at, PeerId peer) {
    if (at != at_ || peer != victim_ || --left_ != 0) return;
    dead = world->kill(victim_);
    EXPECT_TRUE(dead);
    EXPECT_FALSE(world->kill(victim_)) << "only once";
  }

  PeerId victim_;
  At at_;
  std::int64_t left_;
};

TEST(VirtualWorld, OfWhatTheDeadHaveSentEachGetsTheBeginning) {
  std::size_t whole = 0, cut = 0;
  int came_after_loss = 0;
  for (std::int64_t i = 1; i <= 180; ++i) {
    Scene scene(4);
    RandomLinks links(static_cast<std::uint64_t>(i), {.most_s = 1e-2, .loss_known_most_s = 1e-2});
    RandomDisks disks(1, {.most_s = 1e-3});
    scene.build(links, disks);
    const PeerId victim = scene.membership.workers.back();
    KillAt kill(victim, static_cast<KillAt::At>(i % 3), 1 + i % 60);
    kill.world = &*scene.world;
    scene.world->watch(kill);
    scene.run();
    ASSERT_TRUE(kill.dead);
    for (const PeerId peer : scene.membership.all()) {
      if (peer == victim) continue;
      const auto& sent = kill.sent[peer];
      const auto& came = kill.came[peer];
      ASSERT_LE(came.size(), sent.size());
      ASSERT_TRUE(std::equal(came.begin(), came.end(), sent.begin()));
      (came.size() == sent.size() ? whole : cut) += 1;
    }
    came_after_loss += kill.came_after_loss;
  }
  EXPECT_GT(whole, 20u);
  EXPECT_GT(cut, 3u);
  EXPECT_GT(came_after_loss, 0) << "messages under way may arrive after PeerLost";
}

TEST(VirtualWorld, WhatWaitsAtOneWhoDiesNeverLeaves) {
  int lost = 0;
  for (std::int64_t i = 10; i < 30; ++i) {
    Scene scene(4);
    WaitingLinks links(static_cast<std::uint64_t>(i));
    RandomDisks disks(1, {.most_s = 1e-3});
    scene.build(links, disks);
    const PeerId victim = scene.membership.workers.back();
    KillAt kill(victim, KillAt::At::handled, i);
    kill.world = &*scene.world;
    scene.world->watch(kill);
    while (!kill.dead) ASSERT_TRUE(scene.world->step());
    const double died_s = scene.world->now_s();
    scene.run();
    EXPECT_LE(links.last_left_s.at(victim), died_s);
    for (const auto& [peer, sent] : kill.sent) {
      lost += static_cast<int>(sent.size() - kill.came[peer].size());
    }
  }
  EXPECT_GT(lost, 0);
}

TEST(VirtualWorld, ADeathIsHeardOfByAllWhoHaveNotFinished) {
  Scene scene(4);
  RandomLinks links(1, {});
  RandomDisks disks(1, {.most_s = 1e-3});
  scene.build(links, disks);
  const PeerId victim = scene.membership.workers.back();
  KillAt kill(victim, KillAt::At::handled, 30);
  kill.world = &*scene.world;
  scene.world->watch(kill);
  scene.run();
  // A run that does not recover ends with the first loss.
  ASSERT_TRUE(scene.world->all_done()) << scene.world->waiting_for();
  const PeerId leader = scene.membership.workers.front();
  EXPECT_TRUE(scene.world->dead(victim));
  EXPECT_TRUE(kill.heard.contains(leader));
  EXPECT_EQ(scene.world->peer(leader).status().code(), ExitStatus::stopped);
  EXPECT_FALSE(scene.world->kill(leader)) << "it has finished";
}

TEST(VirtualWorld, WhoIsStoppedAgainWhileStoppedStillHearsAllInOrder) {
  Scene scene(4);
  RandomLinks links(1, {});
  RandomDisks disks(1, {.most_s = 1e-3});
  scene.build(links, disks);
  MessageRecord record;
  scene.world->watch(record);
  const PeerId stopped = scene.membership.workers.back();
  for (int i = 0; scene.world->step(); ++i) {
    if (i % 10 == 0) scene.world->stop(stopped, 1e-3);
  }
  ASSERT_TRUE(scene.world->all_done()) << scene.world->waiting_for();
  for (const auto& [pair, came] : record.came) {
    const auto& sent = record.sent.at(pair);
    ASSERT_TRUE(std::equal(came.begin(), came.end(), sent.begin()))
        << "from " << pair.first.value << " to " << pair.second.value;
  }
}

// When messages of one peer came to another.
class Arrivals final : public Observer {
 public:
  Arrivals(PeerId from, PeerId to) : from_(from), to_(to) {}
  void happened(double now_s, PeerId peer, const Event& event) override {
    const auto* arrived = get_if<MessageArrived>(&event);
    if (arrived != nullptr && peer == to_ && arrived->from == from_) at_s.push_back(now_s);
  }
  std::vector<double> at_s;

 private:
  PeerId from_, to_;
};

TEST(VirtualWorld, OfALinkThatIsCutOneWayTheOtherWayCarries) {
  Scene scene(4);
  RandomLinks links(1, {});
  RandomDisks disks(1, {.most_s = 1e-3});
  scene.build(links, disks);
  const PeerId leader = scene.membership.workers.front(), other = scene.membership.workers.back();
  Arrivals there(leader, other), back(other, leader);
  scene.world->watch(there);
  scene.world->watch(back);
  scene.world->cut(leader, other, 1, true);
  scene.run();
  ASSERT_FALSE(there.at_s.empty());
  EXPECT_GE(there.at_s.front(), 1);
  ASSERT_FALSE(back.at_s.empty());
  EXPECT_LT(back.at_s.front(), 0.5);
}

TEST(VirtualWorld, WhatAHungLoopHasSentArrivesPieceByPieceInOrder) {
  Scene scene(4);
  RandomLinks links(1, {.least_s = 0.01, .most_s = 0.01});
  RandomDisks disks(1, {.most_s = 1e-3});
  scene.build(links, disks);
  const PeerId hung = scene.membership.workers.front();
  Arrivals arrivals(hung, scene.membership.workers.back());
  MessageRecord record;
  scene.world->watch(arrivals);
  scene.world->watch(record);
  double longest_s = 0;  // from a hang to the last that came of what had been sent before it
  for (int hangs = 0; hangs < 20; ++hangs) {
    for (int i = 0; i < 20; ++i) scene.world->step();
    arrivals.at_s.clear();
    const double since_s = scene.world->now_s();
    scene.world->hang_loop(hung, 1);
    while (scene.world->now_s() < since_s + 1 && scene.world->step()) {
    }
    std::erase_if(arrivals.at_s, [&](double at_s) { return at_s >= since_s + 1; });
    if (!arrivals.at_s.empty()) longest_s = std::max(longest_s, arrivals.at_s.back() - since_s);
  }
  EXPECT_GT(longest_s, 0.1) << "links take 0.01 s";
  scene.run();
  ASSERT_TRUE(scene.world->all_done()) << scene.world->waiting_for();
  for (const auto& [pair, came] : record.came) {
    ASSERT_TRUE(std::equal(came.begin(), came.end(), record.sent.at(pair).begin()));
  }
}

TEST(VirtualWorld, WhatAWriterHasWrittenStaysThoughItDiesBeforeItHearsOfIt) {
  class DiesOfSuccess final : public Observer {
   public:
    void happened(double, PeerId peer, const Event& event) override {
      const auto* record = get_if<RecordDurable>(&event);
      if (record != nullptr && record->number == 3) world->kill(peer);
    }
    VirtualWorld* world = nullptr;
  };
  Scene scene(2);
  RandomLinks links(1, {});
  RandomDisks disks(1, {.most_s = 1e-3});
  scene.build(links, disks);
  DiesOfSuccess killer;
  killer.world = &*scene.world;
  scene.world->watch(killer);
  scene.run();
  const PeerId leader = scene.membership.workers.front();
  ASSERT_TRUE(scene.world->dead(leader));
  ASSERT_EQ(scene.disk.journal.size(), 3u);
  EXPECT_EQ(scene.disk.journal.back().writer, leader);
  EXPECT_EQ(scene.disk.journal.back().term, scene.membership.first_term);
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
  Scene scene(2);
  RandomLinks links(1, {});
  FullDisk disks;
  scene.build(links, disks);
  scene.run();
  ASSERT_TRUE(scene.world->all_done()) << scene.world->waiting_for();
  for (const PeerId id : scene.membership.all()) {
    EXPECT_EQ(scene.world->peer(id).status().code(), ExitStatus::stopped);
    EXPECT_EQ(scene.world->peer(id).status().message(), "no space left");
  }
  EXPECT_LT(scene.disk.journal.size(), 10u);
  EXPECT_FALSE(scene.disk.complete());
}

}  // namespace
}  // namespace swarmpi::world_test
