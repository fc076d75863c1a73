#include "torture/fault_injector.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "torture/swarm_check.hpp"

namespace swarmpi::fault_injector_test {
namespace {

const NamedMoment& moment(const std::string& name) {
  for (const auto* all : {&message_moments(), &job_moments(), &other_moments()}) {
    for (const NamedMoment& moment : *all) {
      if (moment.name == name) return moment;
    }
  }
  ADD_FAILURE() << "there is no moment " << name;
  return other_moments().front();
}

// Six workers on two stages whose deaths are repaired.
RandomSwarm six_workers() {
  RandomSwarm swarm = alone(draw_swarm(1));
  RunPlan& plan = swarm.plan;
  plan.train.steps = 3;
  plan.train.microbatches = swarm.model.microbatches = 6;
  plan.train.updates = Updates::synchronous;
  plan.stage_tensors = {{0, 1}, {}};
  for (std::int32_t t = 2; t < plan.tensors(); ++t) plan.stage_tensors[1].push_back(t);
  plan.stage_costs = {1, 1};
  plan.swarm.stages = 2;
  plan.recovers = true;
  swarm.model.flag_chance = 0;
  for (std::int32_t id = 1; id < 6; ++id) swarm.membership.workers.push_back(PeerId(id));
  return swarm;
}

// Follows what is sent and what arrives of one kind of message, until the first death.
template <class Body>
class Watch final : public Observer {
 public:
  void happened(double, PeerId, const Event& event) override {
    const auto* arrived = get_if<MessageArrived>(&event);
    if (arrived != nullptr && !dead) came += holds_alternative<Body>(arrived->message.body);
  }
  void asked(double, PeerId peer, const Action& action) override {
    const auto* send = get_if<Send>(&action);
    if (send != nullptr && !dead) sent += holds_alternative<Body>(send->message.body);
    last_to_act = peer;
  }
  void died(double, PeerId peer) override {
    if (!dead) dead = peer;
  }
  std::int64_t came = 0, sent = 0;
  PeerId last_to_act;
  std::optional<PeerId> dead;
};

template <class Body>
Watch<Body> run_with(const Fault& kill) {
  RandomSwarm swarm = six_workers();
  swarm.faults.all = {kill};
  VirtualDisk disk;
  Watch<Body> watch;
  run(swarm, {}, *make_compute_factory(swarm), disk, &watch);
  return watch;
}

TEST(FaultInjector, StrikesAtTheMomentThatItIsTold) {
  Fault kill;
  kill.moment = moment("sends SealMessage");
  kill.count = 3;
  const auto before = run_with<SealMessage>(kill);
  EXPECT_EQ(before.sent, 3) << "the third is asked for, but does not go out";
  EXPECT_EQ(before.dead, PeerId(0));

  kill.moment = moment("receives BackwardMessage");
  kill.count = 2;
  EXPECT_EQ(run_with<BackwardMessage>(kill).came, 2);
}

TEST(FaultInjector, OtherSideIsTheOtherSide) {
  Fault kill;
  kill.moment = moment("sends ReportMessage");
  kill.victim = Fault::Victim::other_endpoint;
  EXPECT_EQ(run_with<ReportMessage>(kill).dead, PeerId(0)) << "reports go to the leader";
}

TEST(FaultInjector, OnlyThoseWhoAreMeantCount) {
  Fault kill;
  kill.moment = moment("starts BackwardJob");
  kill.actor = Fault::Actor::given;
  kill.given_actor = PeerId(4);
  EXPECT_EQ(run_with<ReportMessage>(kill).dead, PeerId(4));
}

TEST(FaultInjector, LeadersFallInARow) {
  RandomSwarm swarm = six_workers();
  Fault kill;
  kill.victim = Fault::Victim::leader;
  kill.count = 40;
  swarm.faults.all.assign(3, kill);
  for (std::size_t i = 1; i < 3; ++i) swarm.faults.all[i].since_last_fault = true;
  VirtualDisk disk;
  const SwarmEnd end = run(swarm, {}, *make_compute_factory(swarm), disk);
  ASSERT_EQ(end.deaths.size(), 3u) << end.injected;
  for (std::int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(end.deaths[static_cast<std::size_t>(i)].peer, PeerId(i));
    EXPECT_TRUE(end.deaths[static_cast<std::size_t>(i)].led);
  }
  EXPECT_EQ(end.injected.rfind("at event 40 (", 0), 0u) << end.injected;
}

TEST(FaultInjector, WhoHasAskedForATermLosesNoLinkByAFalseDeath) {
  RandomSwarm swarm = six_workers();
  Fault kill;
  kill.victim = Fault::Victim::leader;
  kill.count = 40;
  Fault lose;
  lose.kind = Fault::Kind::lose_link;
  lose.moment = moment("sends InquiryMessage");
  lose.since_last_fault = true;
  lose.more = 1;
  lose.duration_s = std::numeric_limits<double>::infinity();
  swarm.faults.all = {kill, lose};
  const auto lost_links = [&] {
    VirtualDisk disk;
    const SwarmEnd end = run(swarm, {}, *make_compute_factory(swarm), disk);
    EXPECT_EQ(end.violation, "") << end.injected;
    return end.faults[static_cast<std::size_t>(Fault::Kind::lose_link)];
  };
  EXPECT_EQ(lost_links(), 0);
  swarm.faults.all[1].moment = moment("starts BackwardJob");
  swarm.faults.all[1].actor = Fault::Actor::given;
  swarm.faults.all[1].given_actor = PeerId(4);
  EXPECT_EQ(lost_links(), 1) << "of who does not lead";
}

TEST(FaultInjector, AWholeStageKeepsOneReplicaUnlessItIsNotSpared) {
  RandomSwarm swarm = six_workers();
  Fault kill;
  kill.victim = Fault::Victim::stage;
  kill.stage = StageId(1);
  kill.count = 40;
  swarm.faults.all = {kill};
  VirtualDisk disk;
  const SwarmEnd spared = run(swarm, {}, *make_compute_factory(swarm), disk);
  EXPECT_EQ(spared.deaths.size(), 2u);
  EXPECT_FALSE(spared.stage_was_lost);

  swarm.faults.spares_a_replica = false;
  VirtualDisk other_disk;
  const SwarmEnd lost = run(swarm, {}, *make_compute_factory(swarm), other_disk);
  EXPECT_EQ(lost.deaths.size(), 3u);
  EXPECT_TRUE(lost.stage_was_lost);
  EXPECT_EQ(lost.violation, "");
}

TEST(FaultInjector, NoStageAndNoSwarmIsEverLeftWithoutAPeer) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    TortureRules rules;
    rules.faults.cuts = false;  // the core may kill any silent peer
    RandomSwarm swarm = draw_tortured_swarm(mix_bits(seed), rules);
    lift_memory_limits(swarm);
    swarm.stop.reset();
    swarm.joins.clear();
    swarm.plan.torture_only.moves.clear();
    swarm.plan.swarm.rebalance = Rebalance::none;
    swarm.disks.writes_until_full.reset();
    swarm.faults.spares_a_replica = true;
    for (Fault& kill : swarm.faults.all) kill.more = 12;
    VirtualDisk disk;
    const SwarmEnd end = run(swarm, {}, *make_compute_factory(swarm), disk);
    ASSERT_FALSE(end.stage_was_lost) << swarm.seed;
    ASSERT_LT(end.deaths.size(), swarm.membership.all().size()) << swarm.seed;
  }
}

TEST(FaultSchedule, SaysInOneLineWhatItWillDo) {
  Fault kill;
  kill.moment = moment("receives SealMessage");
  kill.actor = Fault::Actor::given;
  kill.given_actor = PeerId(3);
  kill.count = 2;
  kill.victim = Fault::Victim::leader;
  kill.more = 1;
  FaultSchedule schedule{{kill}};
  EXPECT_EQ(schedule.text(),
            "kills the leader and 1 more before peer 3 receives SealMessage (time 2)");
  kill = {};
  kill.side = Fault::Side::after;
  kill.count = 17;
  kill.since_last_fault = true;
  schedule.all.push_back(kill);
  EXPECT_EQ(schedule.text().substr(schedule.text().find(';')),
            "; kills this peer after anybody hears of anything (time 17 since the last fault)");
}

}  // namespace
}  // namespace swarmpi::fault_injector_test
