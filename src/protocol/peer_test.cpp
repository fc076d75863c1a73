#include "protocol/peer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "protocol/fake_world_test.hpp"
#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/process_port.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/transport_port.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/replica_host.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::peer_test {
namespace {

using testing::FakeWorld;
using testing::tiny_plan;

// Over stage counts, delays and orders of events.
TEST(Peer, TrainsEveryMicrobatchExactlyOnceInEveryStage) {
  for (const std::int64_t stages : {1, 2, 4}) {
    for (const Updates updates : {Updates::synchronous, Updates::delayed}) {
      for (std::uint64_t seed = 0; seed < 50; ++seed) {
        RunPlan plan = tiny_plan(stages, 6);
        plan.train.updates = updates;
        FakeWorld world(plan, seed);
        ASSERT_TRUE(world.run()) << world.peer().waiting_for();
        ASSERT_TRUE(world.peer().status().ok()) << world.peer().status().message();
        EXPECT_TRUE(world.completed);
        EXPECT_TRUE(world.violations.empty()) << world.violations.front();
        EXPECT_EQ(world.backward_count.size(), 7u * 5 * stages);
        for (const auto& [work, count] : world.backward_count) EXPECT_EQ(count, 1);
        for (const auto& [work, count] : world.forward_count) EXPECT_EQ(count, 1);
        EXPECT_LE(world.most_in_flight, plan.window);
      }
    }
  }
}

// Planning is liberal: a message that arrives twice must count once.
TEST(Peer, MessagesThatArriveTwiceCountOnce) {
  for (const std::int64_t stages : {1, 3}) {
    for (const Updates updates : {Updates::synchronous, Updates::delayed}) {
      for (std::uint64_t seed = 0; seed < 100; ++seed) {
        RunPlan plan = tiny_plan(stages, 5);
        plan.train.updates = updates;
        plan.checkpoint_every = 2;
        FakeWorld world(plan, seed);
        world.duplicate_messages = true;
        ASSERT_TRUE(world.run()) << world.peer().waiting_for();
        ASSERT_TRUE(world.peer().status().ok()) << world.peer().status().message();
        ASSERT_TRUE(world.violations.empty()) << world.violations.front();
        for (const auto& [work, count] : world.backward_count) ASSERT_EQ(count, 1);
        EXPECT_EQ(world.rows.size(), 6u);
        EXPECT_EQ(world.checkpoints.size(), 3u);
      }
    }
  }
}

TEST(Peer, WritesARowForEveryStepWithTheSumInIndexOrder) {
  FakeWorld world(tiny_plan(2, 4), 7);
  ASSERT_TRUE(world.run());
  ASSERT_EQ(world.rows.size(), 5u);
  for (std::int64_t step = 0; step <= 4; ++step) {
    double nats = 0;
    for (std::int32_t i = 0; i < 5; ++i)
      nats += FakeWorld::loss_of({Step(step), Purpose::train, i});
    EXPECT_EQ(world.rows[step].step, step);
    EXPECT_EQ(world.rows[step].loss, nats / 160.0);
    EXPECT_EQ(world.rows[step].tokens, step == 0 ? 0 : 160) << "step 0 trains nothing";
    EXPECT_EQ(world.rows[step].state_hash, static_cast<std::uint64_t>(2 * step * 1000));
  }
}

// Jobs take 1 ms, but their results are heard of later, after messages that came between.
TEST(Peer, AccountsForAllOfItsTime) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    FakeWorld world(tiny_plan(1, 4), seed);
    ASSERT_TRUE(world.run());
    double total_s = 0;
    double compute_s = 0;
    for (const PeerRow& use : world.uses) {
      total_s += use.compute_s + use.idle_s + use.communication_s;
      compute_s += use.compute_s;
    }
    EXPECT_NEAR(total_s, world.applied_s, 1e-9) << "seed " << seed;
    EXPECT_LT(compute_s, total_s);
  }
}

TEST(Peer, TellsForHowMuchOfItsWaitingSomethingWasOnItsWay) {
  for (const double carrying : {0.0, 0.25, 1.0}) {
    FakeWorld world(tiny_plan(2, 4), 7);
    world.carrying = carrying;
    ASSERT_TRUE(world.run());
    double waited_s = 0, transfer_s = 0;
    for (const PeerRow& use : world.uses) {
      waited_s += use.idle_s + use.communication_s;
      transfer_s += use.transfer_s;
    }
    // What it waits for a job's thread is no time between two events without a job.
    EXPECT_LE(transfer_s, carrying * waited_s + 1e-9);
    EXPECT_GE(transfer_s, 0.3 * carrying * waited_s);
  }
}

TEST(Peer, MeasuresExponentsInStepZeroAndChangesNothing) {
  FakeWorld world(tiny_plan(1, 3), 1);
  ASSERT_TRUE(world.run());
  EXPECT_TRUE(world.rows[0].skipped);
  EXPECT_TRUE(std::isnan(world.rows[0].grad_norm));
  EXPECT_EQ(world.rows[0].loss, world.rows[1].loss);
  EXPECT_FALSE(world.rows[1].skipped);
  EXPECT_EQ(world.commits[0].next_exponents, Exponents{-16});  // the largest of -20 .. -16
  EXPECT_EQ(world.commits[0].applied_updates, 0);
  EXPECT_EQ(world.commits[1].applied_updates, 1);
}

TEST(Peer, ClipsByTheNormOverAllStages) {
  FakeWorld world(tiny_plan(2, 1), 1);
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.rows[1].grad_norm, 3.0);  // sqrt(4 + 5)
  EXPECT_EQ(world.commits[1].clip, static_cast<float>(1.0 / 3.0));
}

TEST(Peer, SkipsAFlaggedStepAndRaisesTheExponent) {
  FakeWorld world(tiny_plan(2, 4), 3);
  world.spoil = [](const WorkId& work, kernels::Contribution& contribution) {
    if (work.microbatch.step == Step(2) && work.microbatch.index == 3 && work.stage == StageId(1)) {
      contribution.overflow = true;
      contribution.exponent = 5;
    }
  };
  ASSERT_TRUE(world.run());
  ASSERT_TRUE(world.peer().status().ok());
  EXPECT_TRUE(world.rows[2].skipped);
  EXPECT_FALSE(world.rows[3].skipped);
  const auto is_skip = [](const EventRow& event) { return event.kind == EventKind::skip; };
  const auto skip = std::find_if(world.events.begin(), world.events.end(), is_skip);
  ASSERT_NE(skip, world.events.end());
  EXPECT_TRUE(skip->detail.ends_with("gradients: tensor.1")) << skip->detail;
  EXPECT_EQ(world.commits[2].next_exponents, (Exponents{-11, 5}));  // at most 16 below the largest
  EXPECT_EQ(world.commits[3].applied_updates, 2);
}

TEST(Peer, GivesUpAfterThreeSkipsInARowAndKeepsTheirRows) {
  FakeWorld world(tiny_plan(1, 10), 3);
  world.spoil = [](const WorkId& work, kernels::Contribution& contribution) {
    if (work.microbatch.step.value >= 4) contribution.nonfinite = true;
  };
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.peer().status().code(), ExitStatus::no);
  EXPECT_EQ(world.rows.back().step, 6);
  EXPECT_FALSE(world.completed);
}

TEST(Peer, TwoSkipsInARowAreForgivenAndStepZeroNeverCounts) {
  FakeWorld world(tiny_plan(1, 5), 3);
  world.spoil = [](const WorkId& work, kernels::Contribution& contribution) {
    if (work.microbatch.step.value <= 2) contribution.nonfinite = true;
  };
  ASSERT_TRUE(world.run());
  EXPECT_TRUE(world.peer().status().ok());
  EXPECT_EQ(world.commits.back().applied_updates, 3);
}

TEST(Peer, ValidatesWithTheWeightsOfItsStepAndOnceMoreAtTheEnd) {
  for (const Updates updates : {Updates::synchronous, Updates::delayed}) {
    RunPlan plan = tiny_plan(2, 5);
    plan.train.updates = updates;
    plan.validate_every = 2;
    plan.validation_microbatches = 3;
    FakeWorld world(plan, 5);
    ASSERT_TRUE(world.run()) << world.peer().waiting_for();
    std::vector<std::int64_t> steps;
    for (const ValidationRow& row : world.validation) steps.push_back(row.step);
    EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 2, 4, 5}));
    EXPECT_EQ(world.rows.size(), 6u);
    EXPECT_TRUE(world.violations.empty()) << world.violations.front();
  }
}

// Delayed updates have two steps under way: the later must not overtake the update of the earlier,
// which a checkpoint may hold back.
TEST(Peer, NeverReducesOverAGradientThatIsStillNeeded) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RunPlan plan = tiny_plan(2, 8);
    plan.train.updates = Updates::delayed;
    plan.checkpoint_every = 1;
    FakeWorld world(plan, seed);
    world.slow_storage = true;
    ASSERT_TRUE(world.run()) << world.peer().waiting_for();
    ASSERT_TRUE(world.violations.empty()) << world.violations.front();
  }
}

TEST(Peer, CheckpointsTheStateThatTheRowDescribes) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    RunPlan plan = tiny_plan(1, 7);
    plan.checkpoint_every = 3;
    FakeWorld world(plan, seed);
    ASSERT_TRUE(world.run());
    ASSERT_EQ(world.checkpoints.size(), 3u);
    EXPECT_EQ(world.checkpoints[0].step, 3);
    EXPECT_EQ(world.checkpoints[1].step, 6);
    EXPECT_EQ(world.checkpoints[2].step, 7);
    EXPECT_EQ(world.checkpoints[0].state_hash, 3000u);
    EXPECT_EQ(world.checkpoints[0].applied_updates, 3);
    EXPECT_TRUE(world.violations.empty()) << world.violations.front();
  }
}

// Asked to stop at any moment, a run leaves a checkpoint from which the same rows follow.
TEST(Peer, StopsAtAnyMomentAndResumesWithTheSameRows) {
  for (const Updates updates : {Updates::synchronous, Updates::delayed}) {
    RunPlan plan = tiny_plan(2, 5);
    plan.train.updates = updates;
    FakeWorld undisturbed(plan, 1);
    ASSERT_TRUE(undisturbed.run());
    for (std::uint64_t when = 0; when < 300; when += 3) {
      FakeWorld first(plan, when);
      std::uint64_t events = 0;
      first.interrupt = [&]() -> std::optional<Event> {
        if (events++ == when) return StopRequested{"test"};
        return std::nullopt;
      };
      ASSERT_TRUE(first.run()) << first.peer().waiting_for();
      if (first.peer().status().ok()) continue;
      ASSERT_EQ(first.peer().status().code(), ExitStatus::stopped);
      EXPECT_TRUE(first.violations.empty()) << first.violations.front();

      const ResumeState resume =
          first.checkpoints.empty() ? ResumeState{} : first.checkpoints.back();
      EXPECT_EQ(resume.step, first.rows.empty() ? -1 : first.rows.back().step);
      FakeWorld second(plan, when + 1, resume);
      ASSERT_TRUE(second.run()) << second.peer().waiting_for();
      ASSERT_TRUE(second.peer().status().ok());
      EXPECT_TRUE(second.violations.empty()) << second.violations.front();
      for (const StepRow& row : second.rows) {
        EXPECT_GT(row.step, resume.step);
        EXPECT_EQ(row.loss, undisturbed.rows[row.step].loss);
        EXPECT_EQ(row.lr, undisturbed.rows[row.step].lr);
      }
      for (const CommitRecord& commit : second.commits) {
        EXPECT_EQ(commit.next_exponents, undisturbed.commits[commit.step.value].next_exponents);
      }
    }
  }
}

TEST(Peer, AFullDiskStopsTheRunSoThatItCanBeResumed) {
  FakeWorld world(tiny_plan(1, 5), 2);
  std::uint64_t events = 0;
  world.interrupt = [&]() -> std::optional<Event> {
    if (events++ == 60) return StorageFailed{Status::stopped("no room")};
    return std::nullopt;
  };
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.peer().status().code(), ExitStatus::stopped);
  EXPECT_EQ(world.peer().status().message(), "no room");
}

// While the term's file is being created nobody leads who could end the run.
TEST(Peer, APeerThatIsLostBeforeThereIsATermEndsTheRun) {
  Peer leader(PeerId(0), tiny_plan(1, 2), {{PeerId(0), PeerId(1), PeerId(2)}, {}, Term(1)}, {});
  leader.handle(Started{}, 0);
  const Actions actions = leader.handle(PeerLost{PeerId(1)}, 0.1);
  ASSERT_TRUE(leader.done());
  EXPECT_EQ(leader.status().code(), ExitStatus::stopped);
  std::vector<PeerId> told;
  for (const Action& action : actions) {
    const auto* send = get_if<Send>(&action);
    if (send && holds_alternative<EndMessage>(send->message.body)) told.push_back(send->to);
  }
  EXPECT_TRUE(std::find(told.begin(), told.end(), PeerId(2)) != told.end());
}

// A peer that loses the leader does not know who else is left: a run must not end without a word.
TEST(Peer, WithoutRecoveryEveryPeerThatLosesTheLeaderReportsTheOutcome) {
  const InitialMembership membership{{PeerId(0), PeerId(1), PeerId(2), PeerId(3)}, {}, Term(1)};
  const auto follower = [&](std::int32_t id) {
    return std::make_unique<Peer>(PeerId(id), tiny_plan(1, 2), membership, ResumeState{});
  };
  auto in_order = follower(2);
  in_order->handle(Started{}, 0);
  in_order->handle(PeerLost{PeerId(0)}, 0.1);
  ASSERT_TRUE(in_order->done());
  EXPECT_EQ(in_order->status().code(), ExitStatus::stopped);
  EXPECT_TRUE(in_order->reports_outcome());

  auto after_silence = follower(3);
  after_silence->handle(Started{}, 0);
  for (double now_s = 0.1; now_s < 60 && !after_silence->done(); now_s += 0.1) {
    after_silence->handle(TimerDue{}, now_s);
  }
  ASSERT_TRUE(after_silence->done());
  EXPECT_TRUE(after_silence->reports_outcome());

  auto told = follower(3);
  told->handle(Started{}, 0);
  Message end{Incarnation(), {Term(1), 1}, EndMessage{ExitStatus::stopped, "somebody asked"}};
  told->handle(MessageArrived{PeerId(0), end}, 0.1);
  EXPECT_FALSE(told->done());  // not all have heard it yet
  Message finish{Incarnation(), {Term(1), 1}, ExitMessage{}};
  told->handle(MessageArrived{PeerId(0), finish}, 0.2);
  ASSERT_TRUE(told->done());
  EXPECT_FALSE(told->reports_outcome());
}

TEST(Peer, StoresItsStageUnderTheTermOfTheLeaderThatAsked) {
  Outbox outbox;
  const RunPlan plan = tiny_plan(1, 2);
  const double now_s = 0;
  ReplicaHost host(PeerId(1), plan, {}, outbox, now_s, now_s);
  host.adopt(share({{Term(7), 1}, {{PeerId(0), {}}, {PeerId(1), {StageId(0)}}}, {}, {}}));
  CommitRecord record;
  record.step = Step(0);
  host.receive(CommitMessage{std::make_shared<const CommitRecord>(record), Step(-1), Step(-1)},
               PeerId(0));
  host.start_job();
  host.finished({ApplyResult{Step(0), StageId(0), {{1}, {}}, {}, {}}, 0.1});
  outbox.take();
  host.receive(CheckpointMessage{Step(0), StageId(0)}, PeerId(0));
  const Actions actions = outbox.take();
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(get<StoreStage>(actions[0]).term, Term(7));
}

TEST(Peer, AReplicaWhoseSumsHoldSomethingElseRefusesTheSeal) {
  const RunPlan plan = tiny_plan(1, 2);
  Outbox outbox;
  const double now_s = 0;
  ReplicaHost host(PeerId(0), plan, {}, outbox, now_s, now_s);
  host.adopt(share({{Term(1), 1}, {{PeerId(0), {StageId(0)}}}, {}, {}}));
  Bitmap all(5);
  for (int i = 0; i < 5; ++i) all.insert(i);
  SealMessage message{Step(1), {}, false, std::make_shared<const StepFacts>()};
  StageSeal& seal = message.stages.emplace_back();
  seal.stage = StageId(0);
  seal.seal = {{}, Term(1), 1};
  seal.replicas = {PeerId(0)};
  seal.microbatches = all;
  seal.chunk_replicas = 1;
  host.receive(message, PeerId(0));
  const Actions actions = outbox.take();
  ASSERT_EQ(actions.size(), 1u);
  const auto& refused = get<SealRefused>(get<Send>(actions[0]).message.body);
  EXPECT_EQ(refused.carried.count(), 0);
}

}  // namespace
}  // namespace swarmpi::peer_test
