// Peers that leave, move and learn slowly, in whole runs: nobody else has anything to do again.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "torture/swarm_check.hpp"

namespace swarmpi {
namespace {

// What the leaders write down, and which microbatches anybody works on.
class Diary final : public Observer {
 public:
  void happened(double, PeerId, const Event&) override {}
  void asked(double now_s, PeerId peer, const Action& action) override {
    if (const auto* finish = std::get_if<Finish>(&action)) {
      finished[peer] = finish->status;
      finished_at_s[peer] = now_s;
    }
    const auto* start = std::get_if<StartJob>(&action);
    if (start != nullptr) {
      if (const auto* pass = std::get_if<BackwardJob>(&start->job)) {
        again += passes.insert(pass->work).second ? 0 : 1;
      }
    }
    const auto* record = std::get_if<StoreRecord>(&action);
    const auto* event = record == nullptr ? nullptr : std::get_if<EventRow>(&record->row);
    if (event != nullptr) events.emplace_back(event->kind, event->peer);
  }
  std::int64_t count(const std::string& kind, std::int32_t peer) const {
    return std::count(events.begin(), events.end(),
                      std::pair<std::string, std::int64_t>(kind, peer));
  }

  std::map<PeerId, Status> finished;
  std::map<PeerId, double> finished_at_s;
  std::set<WorkId> passes;
  std::int64_t again = 0;  // passes that were begun before
  std::vector<std::pair<std::string, std::int64_t>> events;
};

// Workers on two stages; a step takes about half a second.
RandomSwarm slow_swarm(std::int32_t workers, std::int32_t spares) {
  RandomSwarm swarm = alone(draw_swarm(1));
  RunPlan& plan = swarm.plan;
  plan.train.steps = 12;
  plan.train.microbatches = swarm.model.microbatches = 6;
  plan.train.updates = "synchronous";
  plan.validate_every = plan.checkpoint_every = 0;
  plan.stage_tensors = {{0, 1}, {}};
  for (std::int32_t t = 2; t < plan.tensors(); ++t) plan.stage_tensors[1].push_back(t);
  plan.stage_costs = {1, 1};
  plan.swarm.stages = 2;
  plan.swarm.spares = spares;
  plan.recovers = true;
  plan.kept_bytes = 1'000'000;
  swarm.model.flag_chance = 0;
  swarm.costs.second_per_pass = 0.03;
  swarm.stop.reset();
  swarm.membership.workers.clear();
  for (std::int32_t id = 0; id < workers + spares; ++id) {
    (id < workers ? swarm.membership.workers : swarm.membership.spares).push_back(PeerId(id));
  }
  return swarm;
}

RandomSwarm ask_to_leave(RandomSwarm swarm, std::vector<PeerId> peers) {
  swarm.stop = StopRequest{60, std::move(peers)};
  return swarm;
}

Diary run_well(const RandomSwarm& swarm) {
  Diary diary;
  VirtualDisk disk;
  const SwarmEnd end = run(swarm, {}, *make_compute_factory(swarm), disk, &diary);
  EXPECT_EQ(end.fault, "");
  return diary;
}

TEST(Departure, APeerThatIsAskedToLeaveGoesAndNothingIsDoneAgain) {
  const RandomSwarm swarm = ask_to_leave(slow_swarm(6, 0), {PeerId(4)});
  const Diary diary = run_well(swarm);
  EXPECT_EQ(diary.count("leave", 4), 1);
  EXPECT_EQ(diary.again, 0);
  EXPECT_TRUE(diary.finished.at(PeerId(4)).ok());
  EXPECT_LT(diary.finished_at_s.at(PeerId(4)), diary.finished_at_s.at(PeerId(0)) / 2);
  EXPECT_EQ(check_swarm(swarm).fault, "");
}

TEST(Departure, ALeaderThatLeavesHandsTheRunOver) {
  const RandomSwarm swarm = ask_to_leave(slow_swarm(6, 0), {PeerId(0)});
  const Diary diary = run_well(swarm);
  EXPECT_EQ(diary.again, 0);
  EXPECT_TRUE(diary.finished.at(PeerId(0)).ok());
  EXPECT_EQ(diary.count("leader", 1), 1);
  EXPECT_LT(diary.finished_at_s.at(PeerId(0)), diary.finished_at_s.at(PeerId(1)) / 2);
}

// Whoever hears of it from another than from the leader itself.
TEST(Departure, ALeaderThatLeavesIsNeverCountedAsKilled) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomSwarm swarm = ask_to_leave(slow_swarm(6, 0), {PeerId(0)});
    swarm.seed = seed;
    swarm.links.least_s = 1e-5;
    swarm.links.most_s = 1e-2;
    const Diary diary = run_well(swarm);
    EXPECT_EQ(diary.count("leave", 0), 1) << "seed " << seed;
    EXPECT_EQ(diary.count("kill", 0), 0) << "seed " << seed;
  }
}

// The next one lets the same peers go; meanwhile they work as before.
TEST(Departure, ALeaderMayDieBeforeItLetsAnybodyGo) {
  RandomSwarm swarm = ask_to_leave(slow_swarm(6, 0), {PeerId(4)});
  swarm.plan.window = 2;
  Fault kill;
  for (const NamedMoment& moment : message_moments()) {
    if (moment.name == "sends `dismiss`") kill.moment = moment;
  }
  ASSERT_TRUE(kill.moment);
  swarm.faults.all = {kill};
  const Diary diary = run_well(swarm);
  EXPECT_EQ(diary.count("leader", 1), 1);
  EXPECT_TRUE(diary.finished.at(PeerId(4)).ok());
}

TEST(Departure, TheOnlyReplicaHandsItsStageToASpare) {
  const Diary diary = run_well(ask_to_leave(slow_swarm(2, 1), {PeerId(1)}));
  EXPECT_EQ(diary.count("migrate", 2), 1) << "it serves now";
  EXPECT_EQ(diary.count("leave", 1), 1);
  EXPECT_EQ(diary.again, 0);
}

TEST(Departure, WithoutASpareASurvivorTakesTheStageOver) {
  const Diary diary = run_well(ask_to_leave(slow_swarm(2, 0), {PeerId(1)}));
  EXPECT_EQ(diary.count("migrate", 0), 1);
  EXPECT_EQ(diary.count("leave", 1), 1);
  EXPECT_EQ(diary.again, 0);
}

TEST(Departure, WhereAllAreAskedTheRunStopsAndIsResumed) {
  const RandomSwarm swarm =
      ask_to_leave(slow_swarm(4, 1), {PeerId(0), PeerId(1), PeerId(2), PeerId(3), PeerId(4)});
  const Diary diary = run_well(swarm);
  for (const auto& [peer, status] : diary.finished) {
    EXPECT_EQ(status.code(), ExitStatus::stopped) << peer;
  }
  EXPECT_EQ(diary.count("leave", 3), 0);
  const SwarmVerdict verdict = check_swarm(swarm);
  EXPECT_EQ(verdict.fault, "");
  EXPECT_GT(verdict.parts, 1);
}

TEST(Departure, APeerThatMovesServesItsOldStageUntilItKnowsTheNewOne) {
  RandomSwarm swarm = slow_swarm(6, 0);
  swarm.plan.moves = {{Step(1), PeerId(5), StageId(0)}};
  const Diary diary = run_well(swarm);
  EXPECT_EQ(diary.count("migrate", 5), 2) << "serves the new stage, and the old one no more";
  EXPECT_EQ(diary.again, 0);
}

TEST(Departure, NobodyMovesAwayFromAStageThatNeedsIt) {
  RandomSwarm swarm = slow_swarm(2, 0);
  swarm.plan.moves = {{Step(1), PeerId(1), StageId(0)}};
  const Diary diary = run_well(swarm);
  EXPECT_EQ(diary.count("migrate", 1), 1) << "it serves both";
  EXPECT_EQ(diary.again, 0);
}

// Gradients and state take two seconds to peer 4, until this time.
class OneSlowLink final : public RandomLinks {
 public:
  explicit OneSlowLink(double until_s) : RandomLinks(1, {}), until_s_(until_s) {}
  Delivery deliver(PeerId from, PeerId to, const Message& message, double now_s) override {
    Delivery delivery = RandomLinks::deliver(from, to, message, now_s);
    const bool bulky = std::holds_alternative<ChunkMessage>(message.body) ||
                       std::holds_alternative<TensorMessage>(message.body);
    if (to == PeerId(4) && bulky && now_s < until_s_) delivery.delay_s += 2;
    return delivery;
  }

 private:
  double until_s_;
};

Diary run_over(LinkModel& links, const RandomSwarm& swarm) {
  SyntheticComputeFactory compute_factory(swarm.model);
  RandomCosts costs(1, swarm.costs, swarm.plan);
  RandomDisks disks(1, {});
  Diary diary;
  VirtualDisk disk;
  SwarmSetting setting;
  setting.plan = swarm.plan;
  setting.membership = swarm.membership;
  setting.joins = swarm.joins;
  setting.compute = [&](PeerId id) {
    return compute_factory.make(id, setting.plan, setting.membership, setting.resume);
  };
  const SwarmEnd end = run_swarm(setting, links, costs, disks, disk, &diary);
  EXPECT_EQ(end.fault, "");
  EXPECT_EQ(end.status.code(), ExitStatus::good) << end.status.message();
  return diary;
}

TEST(Departure, ALearnerThatIsTooSlowDoesNotHoldTheRunUp) {
  RandomSwarm swarm = slow_swarm(4, 1);
  swarm.plan.swarm.shadows = 1;
  swarm.plan.train.steps = 30;
  OneSlowLink links(1e9);
  const Diary diary = run_over(links, swarm);
  const std::int64_t dropped = diary.count("suspect", 4);
  EXPECT_GE(dropped, 2) << "it tries again after a while";
  EXPECT_LE(dropped, 5) << "and waits longer each time";
}

// What it was told before it was dropped it has forgotten.
TEST(Departure, ALearnerThatTriesAgainServesInTheEnd) {
  for (const char* updates : {"synchronous", "delayed"}) {
    RandomSwarm swarm = slow_swarm(4, 0);
    swarm.plan.train.updates = updates;
    swarm.plan.train.steps = 30;
    swarm.joins = {{PeerId(4), 0.1}};
    OneSlowLink links(2.5);
    const Diary diary = run_over(links, swarm);
    EXPECT_GE(diary.count("suspect", 4), 1);
    EXPECT_EQ(diary.count("migrate", 4), 1) << updates;
  }
}

}  // namespace
}  // namespace swarmpi
