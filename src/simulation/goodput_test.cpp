// What the time of peers goes by with, in a virtual swarm in which everything takes a known time.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/record_port.hpp"
#include "simulation/random_models.hpp"
#include "simulation/synthetic_compute.hpp"
#include "simulation/world.hpp"

namespace swarmpi::goodput_test {
namespace {

constexpr double kForwardS = 2, kBackwardS = 4, kOtherS = 0.125;  // jobs
constexpr std::int64_t kSteps = 5, kMicrobatches = 8;
constexpr double kNotHeardYetS = 0.5;  // of a life: its rows are on their way, and so is the end

class KnownCosts final : public CostModel {
 public:
  double seconds(PeerId, const Job& job) override {
    if (holds_alternative<ForwardJob>(job)) return kForwardS;
    return holds_alternative<BackwardJob>(job) ? kBackwardS : kOtherS;
  }
};

class KnownLinks final : public LinkModel {
 public:
  explicit KnownLinks(double delay_s) : delay_s_(delay_s) {}
  Delivery deliver(PeerId from, PeerId to, const Message&, double) override {
    return {from == to ? 0 : delay_s_};
  }

 private:
  double delay_s_;
};

class QuickDisks final : public DiskModel {
 public:
  WriteAnswer write(PeerId, const Action&) override { return {}; }
};

/// The rows of all peers as they are stored; of those with the same key the last one counts.
class Rows final : public Observer {
 public:
  void happened(double now_s, PeerId peer, const Event& event) override {
    if (holds_alternative<Started>(event)) began_s[peer] = now_s;
  }
  void asked(double now_s, PeerId peer, const Action& action) override {
    if (const auto* record = get_if<StoreRecord>(&action)) add(record->goodput);
    if (const auto* end = get_if<StoreEnd>(&action)) {
      add(end->goodput);
      ended_s = now_s;
      leader = peer;
    }
    const auto* start = get_if<StartJob>(&action);
    if (start == nullptr) return;
    forwards += holds_alternative<ForwardJob>(start->job) ? 1 : 0;
    backwards += holds_alternative<BackwardJob>(start->job) ? 1 : 0;
  }
  void died(double now_s, PeerId peer) override { died_s[peer] = now_s; }

  GoodputRow of(PeerId peer) const {
    GoodputRow sum;
    for (const auto& [key, row] : rows) {
      if (row.peer == peer.value) sum += row;
    }
    return sum;
  }
  GoodputRow of_all() const {
    GoodputRow sum;
    for (const auto& [key, row] : rows) sum += row;
    return sum;
  }
  double life_s(PeerId peer) const {
    const auto died = died_s.find(peer);
    return (died == died_s.end() ? ended_s : died->second) - began_s.at(peer);
  }

  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, GoodputRow> rows;
  std::map<PeerId, double> began_s, died_s;
  double ended_s = 0;
  PeerId leader;
  std::int64_t forwards = 0, backwards = 0;  // jobs that were begun

 private:
  void add(const std::vector<GoodputRow>& more) {
    for (const GoodputRow& row : more) {
      rows[{row.step, row.peer, row.run, row.incarnation}] = row;
    }
  }
};

// Two stages. The spare, if there is one, is the last peer.
struct Swarm {
  explicit Swarm(double delay_s, std::int64_t workers = 4, std::int64_t spares = 0)
      : membership(make_membership(workers + spares, spares)), links(delay_s) {
    plan.train.steps = kSteps;
    plan.train.microbatches = kMicrobatches;
    plan.tokens_per_microbatch = 10;
    plan.window = 8;
    for (int t = 0; t < 4; ++t) plan.tensor_names.push_back("tensor." + std::to_string(t));
    plan.tensor_elements = {100, 4096, 10'000, 1};
    plan.stage_tensors = {{0, 1}, {2, 3}};
    plan.stage_costs = {1, 2};
    plan.swarm.stages = 2;
    plan.recovers = true;
    plan.kept_bytes = 1 << 30;
    world.emplace(links, costs, disks, disk);
    world->watch(rows);
    for (const PeerId id : membership.all()) {
      computes.push_back(compute_factory.make(id, plan, membership, {}));
      world->add(id, std::make_unique<Peer>(id, plan, membership, ResumeState{}), *computes.back(),
                 0, 0);
    }
  }
  /// Until it ends; one peer is killed on the way, if one is named.
  const Rows& run(std::optional<PeerId> victim = {}, double dies_s = 0) {
    while (world->now_s() < 10'000 && world->step()) {
      if (victim && world->now_s() >= dies_s) {
        world->kill(*std::exchange(victim, std::nullopt));
      }
    }
    EXPECT_TRUE(world->all_done()) << world->waiting_for();
    EXPECT_TRUE(world->violation().ok()) << world->violation().message();
    EXPECT_TRUE(disk.complete());
    return rows;
  }

  RunPlan plan;
  SyntheticModel model{.seed = 1, .microbatches = kMicrobatches, .flag_chance = 0};
  InitialMembership membership;
  SyntheticComputeFactory compute_factory{model};
  std::vector<std::unique_ptr<VirtualCompute>> computes;
  VirtualDisk disk;
  KnownCosts costs;
  KnownLinks links;
  QuickDisks disks;
  Rows rows;
  std::optional<VirtualWorld> world;
};

// Of each microbatch a forward and a backward pass in the first stage, and one that is both in the
// last. Step 0 is one more.
constexpr double kUsefulS =
    static_cast<double>((kSteps + 1) * kMicrobatches) * (kForwardS + 2 * kBackwardS);

TEST(Goodput, TheColumnsOfEachPeerAddUpToItsLife) {
  Swarm swarm(0.125, 4, 1);
  const Rows& rows = swarm.run();
  for (const PeerId peer : swarm.membership.all()) {
    SCOPED_TRACE(peer.value);
    EXPECT_NEAR(rows.of(peer).total_s(), rows.life_s(peer), kNotHeardYetS);
  }
  EXPECT_NEAR(rows.of(rows.leader).total_s(), rows.life_s(rows.leader), 1e-9)
      << "it hears itself at once";
  const GoodputRow all = rows.of_all();
  EXPECT_NEAR(all.useful_s, kUsefulS, 1e-9);
  EXPECT_EQ(all.repeated_s, 0);
  EXPECT_EQ(all.repair_s, 0);
  EXPECT_GT(all.reduction_s, 0);
  EXPECT_GT(all.link_s, 0);
  const GoodputRow spare = rows.of(PeerId(4));
  EXPECT_NEAR(spare.idle_s + spare.checkpoint_s, spare.total_s(), 1e-9);
}

TEST(Goodput, WhereLinksTakeNoTimeNobodyWaitsForThem) {
  Swarm swarm(0);
  const GoodputRow all = swarm.run().of_all();
  EXPECT_EQ(all.link_s, 0);
  EXPECT_NEAR(all.useful_s, kUsefulS, 1e-9);
}

// One peer of each stage, and a link of 3 s: what a run takes longer most is waited on the link;
// the rest for passes of the other that nothing hides any more.
TEST(Goodput, WhatIsOnItsWayIsWaitedForOnTheLink) {
  Swarm near(0, 2), far(3, 2);
  const Rows& without = near.run();
  const Rows& with = far.run();
  EXPECT_GT(with.of_all().link_s, 0.75 * (with.of_all().total_s() - without.of_all().total_s()));
  EXPECT_NEAR(with.of_all().useful_s, kUsefulS, 1e-9);
  EXPECT_NEAR(with.of_all().reduction_s, without.of_all().reduction_s, 1e-9);
}

// A peer of the last stage dies in the middle of a step. What it did in that step is lost; what
// others do in its place is of use. So each pass of each step is of use once, whoever did it.
TEST(Goodput, ADeathCostsWhatTheDeadDidAndWhatIsDoneOnceMore) {
  constexpr double kDiesS = 100.3;
  Swarm swarm(0.125);
  const PeerId dead(3);
  const Rows& rows = swarm.run(dead, kDiesS);
  const GoodputRow all = rows.of_all();
  EXPECT_NEAR(all.useful_s, kUsefulS, 1e-9);
  for (const PeerId peer : swarm.membership.all()) {
    SCOPED_TRACE(peer.value);
    EXPECT_NEAR(rows.of(peer).total_s(), rows.life_s(peer), kNotHeardYetS);
  }
  // Of the passes that were begun those are left over that are in no committed step.
  const double begun_s = static_cast<double>(rows.forwards) * kForwardS +
                         static_cast<double>(rows.backwards) * kBackwardS;
  const double own_lost_s = rows.of(dead).repeated_s;
  const double of_others_s = all.repeated_s - own_lost_s;
  EXPECT_GT(own_lost_s, 0);
  EXPECT_LE(of_others_s, begun_s - kUsefulS);
  EXPECT_GT(all.repair_s, 0);
  EXPECT_LT(all.repair_s, 0.01 * all.total_s());
}

}  // namespace
}  // namespace swarmpi::goodput_test
