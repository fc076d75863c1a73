// Peers that leave, move and learn slowly, in whole runs: no work is done twice for it.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/process_port.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/method/layout.hpp"
#include "torture/swarm_check.hpp"

namespace swarmpi::departure_test {
namespace {

// The events that the leaders record, and the backward passes that are begun.
class RunLog final : public Observer {
 public:
  void asked(double now_s, PeerId peer, const Action& action) override {
    if (const auto* finish = get_if<Finish>(&action)) {
      finished[peer] = finish->status;
      finished_at_s[peer] = now_s;
    }
    const auto* start = get_if<StartJob>(&action);
    if (start != nullptr) {
      if (const auto* pass = get_if<BackwardJob>(&start->job)) {
        again += passes.insert(pass->work).second ? 0 : 1;
      }
    }
    const auto* record = get_if<StoreRecord>(&action);
    const auto* event = record == nullptr ? nullptr : std::get_if<EventRow>(&record->row);
    if (event != nullptr) events.emplace_back(event->kind, event->peer);
  }
  std::int64_t count(EventKind kind, std::int32_t peer) const {
    return std::count(events.begin(), events.end(), std::pair<EventKind, std::int64_t>(kind, peer));
  }

  std::map<PeerId, Status> finished;
  std::map<PeerId, double> finished_at_s;
  std::set<WorkId> passes;
  std::int64_t again = 0;  // passes that were begun before
  std::vector<std::pair<EventKind, std::int64_t>> events;
};

// Workers on two stages; a step takes about half a second.
RandomSwarm slow_swarm(std::int32_t workers, std::int32_t spares) {
  RandomSwarm swarm = alone(draw_swarm(1));
  RunPlan& plan = swarm.plan;
  plan.train.steps = 12;
  plan.train.microbatches = swarm.model.microbatches = 6;
  plan.train.updates = Updates::synchronous;
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

RunLog run_well(const RandomSwarm& swarm) {
  RunLog run_log;
  VirtualDisk disk;
  const SwarmEnd end = run(swarm, {}, *make_compute_factory(swarm), disk, &run_log);
  EXPECT_EQ(end.violation, "");
  return run_log;
}

TEST(Departure, APeerThatIsAskedToLeaveGoesAndNothingIsDoneAgain) {
  const RandomSwarm swarm = ask_to_leave(slow_swarm(6, 0), {PeerId(4)});
  const RunLog run_log = run_well(swarm);
  EXPECT_EQ(run_log.count(EventKind::leave, 4), 1);
  EXPECT_EQ(run_log.again, 0);
  EXPECT_TRUE(run_log.finished.at(PeerId(4)).ok());
  EXPECT_LT(run_log.finished_at_s.at(PeerId(4)), run_log.finished_at_s.at(PeerId(0)) / 2);
  EXPECT_EQ(check_swarm(swarm).violation, "");
}

TEST(Departure, ALeaderThatLeavesHandsTheRunOver) {
  const RandomSwarm swarm = ask_to_leave(slow_swarm(6, 0), {PeerId(0)});
  const RunLog run_log = run_well(swarm);
  EXPECT_EQ(run_log.again, 0);
  EXPECT_TRUE(run_log.finished.at(PeerId(0)).ok());
  EXPECT_EQ(run_log.count(EventKind::leader, 1), 1);
  EXPECT_LT(run_log.finished_at_s.at(PeerId(0)), run_log.finished_at_s.at(PeerId(1)) / 2);
}

// Also where another peer than the leader itself tells of its departure first.
TEST(Departure, ALeaderThatLeavesIsNeverCountedAsKilled) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomSwarm swarm = ask_to_leave(slow_swarm(6, 0), {PeerId(0)});
    swarm.seed = seed;
    swarm.links.least_s = 1e-5;
    swarm.links.most_s = 1e-2;
    const RunLog run_log = run_well(swarm);
    EXPECT_EQ(run_log.count(EventKind::leave, 0), 1) << "seed " << seed;
    EXPECT_EQ(run_log.count(EventKind::kill, 0), 0) << "seed " << seed;
  }
}

// The next leader releases the same peers; until then they work as before.
TEST(Departure, ALeaderMayDieBeforeItLetsAnybodyGo) {
  RandomSwarm swarm = ask_to_leave(slow_swarm(6, 0), {PeerId(4)});
  swarm.plan.window = 2;
  Fault kill;
  for (const NamedMoment& moment : message_moments()) {
    if (moment.name == "sends ReleaseMessage") kill.moment = moment;
  }
  ASSERT_TRUE(kill.moment);
  swarm.faults.all = {kill};
  const RunLog run_log = run_well(swarm);
  EXPECT_EQ(run_log.count(EventKind::leader, 1), 1);
  EXPECT_TRUE(run_log.finished.at(PeerId(4)).ok());
}

TEST(Departure, TheOnlyReplicaHandsItsStageToASpare) {
  const RunLog run_log = run_well(ask_to_leave(slow_swarm(2, 1), {PeerId(1)}));
  EXPECT_EQ(run_log.count(EventKind::migrate, 2), 1) << "it serves now";
  EXPECT_EQ(run_log.count(EventKind::leave, 1), 1);
  EXPECT_EQ(run_log.again, 0);
}

TEST(Departure, WithoutASpareASurvivorTakesTheStageOver) {
  const RunLog run_log = run_well(ask_to_leave(slow_swarm(2, 0), {PeerId(1)}));
  EXPECT_EQ(run_log.count(EventKind::migrate, 0), 1);
  EXPECT_EQ(run_log.count(EventKind::leave, 1), 1);
  EXPECT_EQ(run_log.again, 0);
}

RandomSwarm as_pipelines(RandomSwarm swarm, Method method) {
  swarm.plan.swarm.method = method;
  swarm.plan.window = kNoWindow;
  swarm.plan.kept_bytes = 0;
  return swarm;
}

// The open step is finished and written, and all go on from there: nothing is lost, nothing done
// again.
TEST(Departure, FromAStaticPipelineAPeerGoesAtTheEndOfAStep) {
  for (const Method method : {Method::gpipe, Method::one_f_one_b}) {
    for (const std::int32_t peer : {0, 3}) {
      const RandomSwarm swarm =
          as_pipelines(ask_to_leave(slow_swarm(4, 1), {PeerId(peer)}), method);
      const RunLog run_log = run_well(swarm);
      EXPECT_EQ(run_log.count(EventKind::leave, peer), 1);
      EXPECT_EQ(run_log.count(EventKind::incarnation, -1), 1) << "once, though it may have led";
      EXPECT_EQ(run_log.count(EventKind::migrate, 4), 0) << "nobody learns";
      EXPECT_EQ(run_log.again, 0);
      EXPECT_TRUE(run_log.finished.at(PeerId(peer)).ok());
      EXPECT_EQ(check_swarm(swarm).violation, "");
    }
  }
}

// The other of its pipeline becomes a spare.
TEST(Departure, FromAStaticPipelineWithoutASpareAPeerGoesAndThePipelineRests) {
  const RandomSwarm swarm =
      as_pipelines(ask_to_leave(slow_swarm(4, 0), {PeerId(2)}), Method::gpipe);
  const RunLog run_log = run_well(swarm);
  EXPECT_EQ(run_log.count(EventKind::leave, 2), 1);
  EXPECT_EQ(run_log.again, 0);
  EXPECT_EQ(check_swarm(swarm).violation, "");
}

TEST(Departure, WhereAllAreAskedTheRunStopsAndIsResumed) {
  const RandomSwarm swarm =
      ask_to_leave(slow_swarm(4, 1), {PeerId(0), PeerId(1), PeerId(2), PeerId(3), PeerId(4)});
  const RunLog run_log = run_well(swarm);
  for (const auto& [peer, status] : run_log.finished) {
    EXPECT_EQ(status.code(), ExitStatus::stopped) << peer;
  }
  EXPECT_EQ(run_log.count(EventKind::leave, 3), 0);
  const SwarmVerdict verdict = check_swarm(swarm);
  EXPECT_EQ(verdict.violation, "");
  EXPECT_GT(verdict.parts, 1);
}

TEST(Departure, APeerThatMovesServesItsOldStageUntilItKnowsTheNewOne) {
  RandomSwarm swarm = slow_swarm(6, 0);
  swarm.plan.torture_only.moves = {{Step(1), PeerId(5), StageId(0)}};
  const RunLog run_log = run_well(swarm);
  EXPECT_EQ(run_log.count(EventKind::migrate, 5), 2)
      << "serves the new stage, and the old one no more";
  EXPECT_EQ(run_log.again, 0);
}

TEST(Departure, NobodyMovesAwayFromAStageThatNeedsIt) {
  RandomSwarm swarm = slow_swarm(2, 0);
  swarm.plan.torture_only.moves = {{Step(1), PeerId(1), StageId(0)}};
  const RunLog run_log = run_well(swarm);
  EXPECT_EQ(run_log.count(EventKind::migrate, 1), 1) << "it serves both";
  EXPECT_EQ(run_log.again, 0);
}

// Gradients and state take two seconds to peer 4, until this time.
class OneSlowLink final : public RandomLinks {
 public:
  explicit OneSlowLink(double until_s) : RandomLinks(1, {}), until_s_(until_s) {}
  Delivery deliver(PeerId from, PeerId to, const Message& message, double now_s) override {
    Delivery delivery = RandomLinks::deliver(from, to, message, now_s);
    const bool bulky = holds_alternative<ChunkMessage>(message.body) ||
                       holds_alternative<PieceMessage>(message.body);
    if (to == PeerId(4) && bulky && now_s < until_s_) delivery.delay_s += 2;
    return delivery;
  }

 private:
  double until_s_;
};

RunLog run_over(LinkModel& links, const RandomSwarm& swarm) {
  SyntheticComputeFactory compute_factory(swarm.model);
  RandomCosts costs(1, swarm.costs, swarm.plan);
  RandomDisks disks(1, {});
  RunLog run_log;
  VirtualDisk disk;
  SwarmSetting setting;
  setting.plan = swarm.plan;
  setting.membership = swarm.membership;
  setting.joins = swarm.joins;
  setting.compute = [&](PeerId id) {
    return compute_factory.make(id, setting.plan, setting.membership, setting.resume);
  };
  const SwarmEnd end = run_swarm(setting, links, costs, disks, disk, &run_log);
  EXPECT_EQ(end.violation, "");
  EXPECT_EQ(end.status.code(), ExitStatus::good) << end.status.message();
  return run_log;
}

TEST(Departure, ALearnerThatIsTooSlowDoesNotHoldTheRunUp) {
  RandomSwarm swarm = slow_swarm(4, 1);
  swarm.plan.swarm.shadows = 1;
  swarm.plan.train.steps = 30;
  OneSlowLink links(1e9);
  const RunLog run_log = run_over(links, swarm);
  const std::int64_t dropped = run_log.count(EventKind::dismiss, 4);
  EXPECT_GE(dropped, 2) << "it tries again after a while";
  EXPECT_LE(dropped, 5) << "and waits longer each time";
}

// A dropped learner has forgotten what it had learned.
TEST(Departure, ALearnerThatTriesAgainServesInTheEnd) {
  for (const Updates updates : {Updates::synchronous, Updates::delayed}) {
    RandomSwarm swarm = slow_swarm(4, 0);
    swarm.plan.train.updates = updates;
    swarm.plan.train.steps = 30;
    swarm.joins = {{PeerId(4), 0.1}};
    OneSlowLink links(2.5);
    const RunLog run_log = run_over(links, swarm);
    EXPECT_GE(run_log.count(EventKind::dismiss, 4), 1);
    EXPECT_EQ(run_log.count(EventKind::migrate, 4), 1) << name_of(updates);
  }
}

}  // namespace
}  // namespace swarmpi::departure_test
