// Jobs and disks that hang, in whole runs: who can help does, and nobody goes needlessly.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/messages/record_port.hpp"
#include "torture/swarm_check.hpp"

namespace swarmpi::hang_test {
namespace {

// The events that leaders record, and when all was over.
class RunLog final : public Observer {
 public:
  void asked(double now_s, PeerId, const Action& action) override {
    if (holds_alternative<Finish>(action)) ended_s = now_s;
    const auto* record = get_if<StoreRecord>(&action);
    const auto* event = record == nullptr ? nullptr : std::get_if<EventRow>(&record->row);
    if (event != nullptr) events.push_back(*event);
  }
  std::int64_t count(EventKind kind) const {
    return std::count_if(events.begin(), events.end(),
                         [&](const EventRow& event) { return event.kind == kind; });
  }
  bool says(EventKind kind, const std::string& text) const {
    return std::any_of(events.begin(), events.end(), [&](const EventRow& event) {
      return event.kind == kind && event.detail.find(text) != std::string::npos;
    });
  }

  std::vector<EventRow> events;
  double ended_s = 0;  // the last peer
};

// Peers 0 to 3 on two stages; a step takes about half a second, and the patience is 3 s.
RandomSwarm slow_swarm() {
  RandomSwarm swarm = alone(draw_swarm(1));
  RunPlan& plan = swarm.plan;
  plan.train.steps = 30;
  plan.train.microbatches = swarm.model.microbatches = 6;
  plan.train.updates = Updates::synchronous;
  plan.validate_every = 0;
  plan.checkpoint_every = 2;
  plan.stage_tensors = {{0, 1}, {}};
  for (std::int32_t t = 2; t < plan.tensors(); ++t) plan.stage_tensors[1].push_back(t);
  plan.stage_costs = {1, 1};
  plan.swarm.stages = 2;
  plan.recovers = true;
  plan.kept_bytes = 1'000'000;
  plan.job_timeout_s = 100;
  plan.storage_timeout_s = 12;
  swarm.model.flag_chance = 0;
  swarm.costs.second_per_pass = 0.03;
  swarm.stop.reset();
  swarm.membership.workers = {PeerId(0), PeerId(1), PeerId(2), PeerId(3)};
  return swarm;
}

// `more`: how many others hang as well.
Fault hang(Fault::Kind kind, std::int32_t peer, double duration_s, std::int64_t more = 0) {
  Fault fault;
  fault.kind = kind;
  fault.actor = Fault::Actor::given;
  fault.given_actor = PeerId(peer);
  fault.count = 40;
  fault.duration_s = duration_s;
  fault.more = more;
  return fault;
}

struct HungRun {
  RunLog log;
  SwarmEnd end;
  std::int64_t late = 0;  // writes that were done after they had been given up
};

HungRun run_with(RandomSwarm swarm, std::vector<Fault> faults) {
  swarm.faults.all = std::move(faults);
  HungRun run;
  VirtualDisk disk;
  run.end = swarmpi::run(swarm, {}, *make_compute_factory(swarm), disk, &run.log);
  run.late = disk.mishaps.landed_late;
  EXPECT_EQ(run.end.violation, "");
  EXPECT_EQ(check_swarm(swarm).violation, "") << "the same bits";
  return run;
}

HungRun run_with(const RandomSwarm& swarm, const Fault& fault) {
  return run_with(swarm, std::vector{fault});
}

constexpr double kForEver = 1e6;

// Stage 1 dies with all who serve it, once there are checkpoints; then the disk of this peer, or
// of the first that is to load a stage, hangs as it does so.
std::vector<Fault> hang_while_loading(std::optional<std::int32_t> peer, double duration_s,
                                      std::int64_t more = 0) {
  Fault dies;
  dies.victim = Fault::Victim::stage;
  dies.stage = StageId(1);
  dies.count = 1500;
  Fault hangs = hang(Fault::Kind::hang_disk, peer.value_or(0), duration_s, more);
  if (!peer) hangs.actor = Fault::Actor::any;
  for (const NamedMoment& moment : other_moments()) {
    if (moment.name == "asks for LoadStage") hangs.moment = moment;
  }
  hangs.count = 1;
  hangs.since_last_fault = true;
  return {dies, hangs};
}

// Peers 0 to 5, of which 1, 3 and 5 serve stage 1.
RandomSwarm swarm_of_six() {
  RandomSwarm swarm = slow_swarm();
  swarm.membership.workers = {PeerId(0), PeerId(1), PeerId(2), PeerId(3), PeerId(4), PeerId(5)};
  swarm.faults.spares_a_replica = false;
  return swarm;
}

TEST(Hang, APeerWhoseJobHangsIsGivenUpWhereAnotherCanDoIt) {
  for (const std::int32_t peer : {3, 0}) {
    const HungRun run = run_with(slow_swarm(), hang(Fault::Kind::hang_jobs, peer, kForEver));
    EXPECT_TRUE(run.end.status.ok()) << run.end.status.message();
    EXPECT_TRUE(run.log.says(EventKind::kill, "gave itself up")) << peer;
    EXPECT_EQ(run.log.count(EventKind::kill), 1) << peer;
    EXPECT_LT(run.log.ended_s, 75) << peer;
  }
}

TEST(Hang, WhereAllJobsHangForAWhileNobodyGoes) {
  const HungRun run = run_with(slow_swarm(), hang(Fault::Kind::hang_jobs, 0, 60, 3));
  EXPECT_TRUE(run.end.status.ok()) << run.end.status.message();
  EXPECT_GT(run.log.count(EventKind::late), 0);
  EXPECT_EQ(run.log.count(EventKind::kill), 0);
  EXPECT_EQ(run.log.count(EventKind::incarnation), 0);
}

TEST(Hang, WhereNobodyElseServesTheStageTheRunEndsAndSaysWhy) {
  RandomSwarm swarm = slow_swarm();
  swarm.plan.swarm.pins = {0, 1, 0, 0};
  const HungRun run = run_with(swarm, hang(Fault::Kind::hang_jobs, 1, kForEver));
  EXPECT_EQ(run.end.status.code(), ExitStatus::stopped);
  EXPECT_NE(run.end.status.message().find("no other peer can do it"), std::string::npos);
}

TEST(Hang, ALeaderWhoseDiskHangsHandsOverAndServesOn) {
  const HungRun run = run_with(slow_swarm(), hang(Fault::Kind::hang_disk, 0, kForEver));
  EXPECT_TRUE(run.end.status.ok()) << run.end.status.message();
  EXPECT_TRUE(run.log.says(EventKind::leader, "storage hangs at peers 0"));
  EXPECT_EQ(run.log.count(EventKind::kill), 0);
  EXPECT_EQ(run.log.count(EventKind::incarnation), 0);
}

TEST(Hang, WhatAnOldLeaderHasAskedForMayBeDoneAfterItHandedOver) {
  std::int64_t late = 0;
  for (std::int64_t count = 40; count < 80; count += 4) {
    RandomSwarm swarm = slow_swarm();
    swarm.disks.outlives_writer_chance = 1;
    swarm.plan.train.steps = 60;
    Fault fault = hang(Fault::Kind::hang_disk, 0, 20);
    fault.count = count;
    const HungRun run = run_with(swarm, fault);
    EXPECT_TRUE(run.end.status.ok()) << run.end.status.message();
    EXPECT_EQ(run.log.count(EventKind::incarnation), 0);
    late += run.late;
  }
  EXPECT_GT(late, 5);
}

TEST(Hang, AWorkerWhoseDiskHangsLeavesItsPartToAnother) {
  const HungRun run = run_with(slow_swarm(), hang(Fault::Kind::hang_disk, 1, kForEver));
  EXPECT_TRUE(run.end.status.ok()) << run.end.status.message();
  EXPECT_EQ(run.log.count(EventKind::kill), 0);
  EXPECT_EQ(run.log.count(EventKind::leader), 1);
  EXPECT_GT(run.log.count(EventKind::checkpoint), 10);
}

TEST(Hang, WhereNoReplicaCanStoreAStageItsCheckpointsAreDropped) {
  RandomSwarm swarm = slow_swarm();
  swarm.plan.swarm.pins = {0, 1, 0, 0};
  swarm.plan.train.steps = 100;
  const HungRun run = run_with(swarm, hang(Fault::Kind::hang_disk, 1, 30));
  EXPECT_TRUE(run.end.status.ok()) << run.end.status.message();
  EXPECT_TRUE(run.log.says(EventKind::dropped, "stage 1 cannot be written"));
  EXPECT_GT(run.log.count(EventKind::dropped), 5) << "each that was due";
  EXPECT_GT(run.log.count(EventKind::checkpoint), 5) << "it works again after 30 s";
  EXPECT_EQ(run.log.count(EventKind::kill), 0);
}

TEST(Hang, ARunWhoseLastCheckpointCannotBeWrittenIsNotComplete) {
  RandomSwarm swarm = slow_swarm();
  swarm.plan.swarm.pins = {0, 1, 0, 0};
  const HungRun run = run_with(swarm, hang(Fault::Kind::hang_disk, 1, kForEver));
  EXPECT_EQ(run.end.status.code(), ExitStatus::stopped);
  EXPECT_NE(run.end.status.message().find("there is no checkpoint of step 30: stage 1"),
            std::string::npos)
      << run.end.status.message();
}

TEST(Hang, AServerThatComesBackHasCostOnlyTime) {
  const HungRun run = run_with(slow_swarm(), hang(Fault::Kind::hang_disk, 0, 20, 3));
  EXPECT_TRUE(run.end.status.ok()) << run.end.status.message();
  EXPECT_EQ(run.log.count(EventKind::kill), 0);
  EXPECT_EQ(run.log.count(EventKind::leader), 1);
}

TEST(Hang, AServerThatDoesNotComeBackEndsTheRunWithoutIt) {
  const HungRun run = run_with(slow_swarm(), hang(Fault::Kind::hang_disk, 0, kForEver, 3));
  EXPECT_EQ(run.end.status.code(), ExitStatus::stopped);
  EXPECT_NE(run.end.status.message().find("storage of peer 0 hangs"), std::string::npos);
  EXPECT_LT(run.log.ended_s, 40);
}

// Peers 0 and 4 serve stage 0 then, and peer 2 stage 1.
TEST(Hang, ADiskThatHangsWhileAStageIsLoadedCostsNoRun) {
  for (const std::int32_t peer : {4, 0}) {
    const HungRun run = run_with(swarm_of_six(), hang_while_loading(peer, kForEver));
    EXPECT_TRUE(run.end.status.ok()) << run.end.status.message();
    EXPECT_EQ(run.log.count(EventKind::incarnation), 1) << peer;
    EXPECT_EQ(run.log.count(EventKind::kill), 4) << "of stage 1, and the one whose disk hangs";
    EXPECT_TRUE(run.log.says(EventKind::kill, "gave itself up")) << peer;
  }
}

TEST(Hang, ADiskThatGoesOnWhileAStageIsLoadedCostsOnlyTime) {
  const HungRun run = run_with(swarm_of_six(), hang_while_loading(2, 20));
  EXPECT_TRUE(run.end.status.ok()) << run.end.status.message();
  EXPECT_EQ(run.log.count(EventKind::incarnation), 1);
  EXPECT_EQ(run.log.count(EventKind::kill), 3);
}

TEST(Hang, WhereNobodyElseHasLoadedTheStageTheRunEndsAndSaysWhy) {
  const HungRun run = run_with(swarm_of_six(), hang_while_loading(2, kForEver));
  EXPECT_EQ(run.end.status.code(), ExitStatus::stopped);
  EXPECT_NE(run.end.status.message().find("peer 2 hangs in loading"), std::string::npos)
      << run.end.status.message();
  EXPECT_EQ(run.log.count(EventKind::kill), 3);
}

TEST(Hang, WhereAllHangAsTheyLoadNobodyGoes) {
  const HungRun run = run_with(swarm_of_six(), hang_while_loading({}, 20, 5));
  EXPECT_TRUE(run.end.status.ok()) << run.end.status.message();
  EXPECT_EQ(run.log.count(EventKind::kill), 3);
  EXPECT_EQ(run.log.count(EventKind::incarnation), 1);
}

// Of each the disk hangs longer than a disk may, then works again: one after the other.
TEST(Hang, WhoseDiskWorksAgainMayLeadAgain) {
  RandomSwarm swarm = slow_swarm();
  swarm.plan.train.steps = 700;
  std::vector<Fault> faults;
  for (std::int32_t i = 0; i < 6; ++i) {
    Fault fault = hang(Fault::Kind::hang_disk, i % 4, 25);
    fault.count = 1;
    fault.not_before_s = 5 + 50 * i;
    faults.push_back(fault);
  }
  const HungRun run = run_with(swarm, faults);
  EXPECT_TRUE(run.end.status.ok()) << run.end.status.message();
  EXPECT_EQ(run.log.count(EventKind::leader), 7) << "the start, and six that took over";
  EXPECT_EQ(run.log.count(EventKind::kill), 0);
}

TEST(Hang, AStopWaitsForNobodyWhoHangs) {
  for (const Fault::Kind kind : {Fault::Kind::hang_jobs, Fault::Kind::hang_disk}) {
    for (const std::int32_t peer : {0, 1}) {
      RandomSwarm swarm = slow_swarm();
      swarm.plan.checkpoint_every = 1;
      swarm.stop = StopRequest{100, swarm.membership.workers};
      const HungRun run = run_with(swarm, hang(kind, peer, kForEver));
      EXPECT_EQ(run.end.status.code(), ExitStatus::stopped);
      EXPECT_EQ(run.end.status.message().find("there is no checkpoint"), std::string::npos)
          << peer << run.end.status.message();
      EXPECT_LT(run.log.ended_s, 45) << peer;
    }
  }
}

}  // namespace
}  // namespace swarmpi::hang_test
