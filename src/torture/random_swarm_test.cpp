// The checks must find what they are there for.

#include "torture/random_swarm.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/reference/guarded_backend.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "simulation/real_compute.hpp"
#include "torture/swarm_check.hpp"

namespace swarmpi::random_swarm_test {
namespace {

// Peers whose work is not to be trusted.
class CarelessComputeFactory final : public SyntheticComputeFactory {
 public:
  using SyntheticComputeFactory::SyntheticComputeFactory;
  std::unique_ptr<VirtualCompute> make(PeerId self, const RunPlan& plan, const InitialMembership&,
                                       const ResumeState& resume) override {
    auto compute = std::make_unique<Careless>(*this, self, plan, resume);
    return compute;
  }
  std::int64_t times = 1;       // that microbatch 0 of step 1 is added in the first stage
  std::optional<PeerId> flips;  // its state of the first tensor it has, before step 1 is applied

 private:
  class Careless final : public SyntheticCompute {
   public:
    Careless(CarelessComputeFactory& factory, PeerId self, const RunPlan& plan,
             const ResumeState& resume)
        : SyntheticCompute(self, plan, factory.model_, resume, factory.archive_, &factory.mishaps_),
          factory_(factory),
          self_(self) {}
    Result<JobResult> execute(const Job& job) override {
      if (const auto* apply = get_if<ApplyJob>(&job)) {
        if (apply->record->step == Step(1) && factory_.flips == self_) flip(apply->stage);
      }
      return SyntheticCompute::execute(job);
    }

   protected:
    std::int64_t times_added(const WorkId& work) const override {
      const MicrobatchId first{Step(1), Purpose::train, 0};
      return work == WorkId{first, StageId(0)} ? factory_.times : 1;
    }

   private:
    CarelessComputeFactory& factory_;
    PeerId self_;
  };
};

// Loses one message of a kind.
template <class Body>
class LosingLinks final : public RandomLinks {
 public:
  using RandomLinks::RandomLinks;
  Delivery deliver(PeerId from, PeerId to, const Message& message, double now_s) override {
    Delivery delivery = RandomLinks::deliver(from, to, message, now_s);
    if (holds_alternative<Body>(message.body) && lost++ == 0) delivery.copies = 0;
    return delivery;
  }
  int lost = 0;
};

// Says everything twice.
class DuplicatingLinks final : public RandomLinks {
 public:
  using RandomLinks::RandomLinks;
  Delivery deliver(PeerId from, PeerId to, const Message& message, double now_s) override {
    Delivery delivery = RandomLinks::deliver(from, to, message, now_s);
    delivery.copies = 2;
    return delivery;
  }
};

// Three replicas of one stage, two steps.
RandomSwarm three_replicas() {
  RandomSwarm swarm = alone(draw_swarm(1));
  swarm.plan.train.steps = 3;
  swarm.plan.train.microbatches = swarm.model.microbatches = 5;
  swarm.plan.train.updates = Updates::synchronous;
  swarm.model.flag_chance = 0;
  swarm.membership.workers = {PeerId(0), PeerId(1), PeerId(2)};
  return swarm;
}

SwarmSetting setting_of(const RandomSwarm& swarm, ComputeFactory& compute_factory) {
  SwarmSetting setting;
  setting.plan = swarm.plan;
  setting.membership = swarm.membership;
  setting.compute = [&](PeerId id) {
    return compute_factory.make(id, swarm.plan, swarm.membership, ResumeState{});
  };
  setting.most_s = 30;
  return setting;
}

SwarmEnd run_on(const RandomSwarm& swarm, ComputeFactory& compute_factory, LinkModel& links,
                bool states_may_differ = false) {
  RandomCosts costs(1, {}, swarm.plan);
  RandomDisks disks(1, {.most_s = 1e-3});
  VirtualDisk disk;
  SwarmSetting setting = setting_of(swarm, compute_factory);
  setting.states_may_differ = states_may_differ;
  return run_swarm(setting, links, costs, disks, disk);
}

SwarmEnd run_careless(const std::function<void(CarelessComputeFactory&)>& spoil,
                      bool states_may_differ) {
  const RandomSwarm swarm = three_replicas();
  CarelessComputeFactory compute_factory(swarm.model);
  spoil(compute_factory);
  RandomLinks links(1, {});
  return run_on(swarm, compute_factory, links, states_may_differ);
}

TEST(RandomSwarm, HoldsInVirtualTime) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RandomSwarm swarm = draw_swarm(mix_bits(seed));
    EXPECT_EQ(check_swarm(swarm).violation, "") << "seed " << swarm.seed << ": " << swarm.text();
  }
}

TEST(RandomSwarm, HoldsWhateverBecomesOfItsCollectives) {
  TortureRules rules;
  rules.faults.collectives = true;
  CollectiveCounts counts;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const SwarmVerdict verdict = check_torture(mix_bits(seed), rules);
    EXPECT_EQ(verdict.violation, "") << "seed " << mix_bits(seed);
    counts.add(verdict.collectives);
  }
  EXPECT_GT(counts.done, 500);
  EXPECT_GT(counts.failed, 50);
  EXPECT_GT(counts.aborted, 500);
}

// Nobody has died, and yet the leader must take a later term.
TEST(RandomSwarm, HoldsWhenAnotherRunTakesTheNextTerm) {
  TortureRules rules;
  rules.faults.outbids = true;
  std::int64_t outbids = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const SwarmVerdict verdict = check_torture(mix_bits(seed), rules);
    EXPECT_EQ(verdict.violation, "") << "seed " << mix_bits(seed);
    outbids += verdict.faults[static_cast<std::size_t>(Fault::Kind::outbid)];
  }
  EXPECT_GT(outbids, 90);
}

TEST(RandomSwarm, HoldsWithRealKernels) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const RandomSwarm swarm = draw_real_swarm(mix_bits(seed));
    EXPECT_EQ(check_swarm(swarm).violation, "") << "seed " << swarm.seed << ": " << swarm.text();
  }
}

TEST(RandomSwarm, HoldsWithRealKernelsWhateverBecomesOfItsCollectives) {
  TortureRules rules;
  rules.real = true;
  rules.faults.collectives = true;
  CollectiveCounts counts;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const SwarmVerdict verdict = check_torture(mix_bits(seed), rules);
    EXPECT_EQ(verdict.violation, "") << "seed " << mix_bits(seed);
    counts.add(verdict.collectives);
  }
  EXPECT_GT(counts.done, 0);
}

// It is summed up again first, in case that the memory was to blame.
TEST(RandomSwarm, TheCoreCommitsNoStepOfWhichAMicrobatchCountsTwiceOrNotAtAll) {
  for (const std::int64_t times : {0, 2}) {
    const SwarmEnd end = run_careless([&](auto& factory) { factory.times = times; }, false);
    EXPECT_EQ(end.violation, "");
    EXPECT_EQ(end.status.code(), ExitStatus::no);
    for (const char* part :
         {"step 1, stage 0: chunk ", "was summed over", "nothing was committed"}) {
      EXPECT_NE(end.status.message().find(part), std::string::npos) << end.status.message();
    }
    EXPECT_FALSE(end.run_record.commits.contains(Step(1)));
  }
}

TEST(RandomSwarm, AChunkThatIsDamagedOnItsWayIsMadeOnceMore) {
  const SwarmEnd good = run_careless([](auto&) {}, false);
  for (const std::int64_t chunk : {1, 2, 3, 5, 8}) {
    const SwarmEnd end = run_careless([&](auto& factory) { factory.damage_chunk(chunk); }, false);
    EXPECT_EQ(end.violation, "");
    EXPECT_TRUE(end.status.ok()) << end.status.message();
    EXPECT_EQ(difference(end.run_record, good.run_record, true), "");
    EXPECT_GT(end.events, good.events) << "it was";
  }
}

TEST(RandomSwarm, TheRefereeSeesAReplicaThatStrays) {
  const SwarmEnd end = run_careless([](auto& factory) { factory.flips = PeerId(1); }, false);
  EXPECT_NE(end.violation.find("replicas agree on the state"), std::string::npos) << end.violation;
}

TEST(RandomSwarm, TheCoreEndsARunWhoseReplicasDisagree) {
  const SwarmEnd end = run_careless([](auto& factory) { factory.flips = PeerId(1); }, true);
  EXPECT_EQ(end.violation, "");
  EXPECT_EQ(end.status.code(), ExitStatus::no);
  for (const char* part : {"after step 1", "in tensor.0", "peers 0 2 against 1"}) {
    EXPECT_NE(end.status.message().find(part), std::string::npos) << end.status.message();
  }
}

// Whole runs with deaths, learners, owners and boundaries, as on a device with memory of its own.
TEST(RandomSwarm, RealKernelsGiveTheSameRunInMemoryThatTheHostCannotTouch) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const RandomSwarm swarm = draw_real_swarm(mix_bits(seed));
    const auto precision = swarm.deck->model.precision == Precision::bf16
                               ? kernels::Precision::bf16
                               : kernels::Precision::fp32;
    RealComputeFactory guarded(*swarm.deck, {}, kernels::make_guarded_backend({precision}));
    VirtualDisk disk, other_disk;
    const SwarmEnd end = run(swarm, {}, guarded, disk);
    const SwarmEnd plain = run(swarm, {}, *make_compute_factory(swarm), other_disk);
    EXPECT_EQ(end.violation, "") << "seed " << seed << ": " << swarm.text();
    EXPECT_EQ(difference(end.run_record, plain.run_record, true), "") << "seed " << seed;
    EXPECT_EQ(end.status.message(), plain.status.message());
  }
}

TEST(RandomSwarm, ABitThatFlipsBehindTheHashIsFoundAStepLater) {
  RandomSwarm swarm = draw_real_swarm(3);
  swarm.membership.workers = {PeerId(0), PeerId(1), PeerId(2)};
  swarm.membership.spares.clear();
  swarm.plan.train.steps = swarm.deck->train.steps = 4;
  swarm.plan.swarm.pins.clear();
  swarm.deck->swarm = {};  // one stage
  set_stages(swarm.plan, *swarm.deck);
  RealComputeFactory compute_factory(*swarm.deck, FlipAfter{PeerId(2), Step(2)});
  RandomLinks links(1, {});
  const SwarmEnd end = run_on(swarm, compute_factory, links, true);
  EXPECT_EQ(end.violation, "");
  EXPECT_EQ(end.status.code(), ExitStatus::no);
  for (const char* part : {"after step 3", "peers 0 1 against 2"}) {
    EXPECT_NE(end.status.message().find(part), std::string::npos) << end.status.message();
  }
}

template <class Body>
std::string violation_of_losing_a() {
  RandomSwarm swarm = three_replicas();
  swarm.plan.swarm.heartbeat_s = 0.2;
  SyntheticComputeFactory compute_factory(swarm.model);
  LosingLinks<Body> links(1, RandomLinksPlan{});
  return run_on(swarm, compute_factory, links).violation;
}

TEST(RandomSwarm, ALostMessageIsAStallThatSaysWhatIsWaitedFor) {
  const auto expect_wait = [](const std::string& fault, const char* what) {
    EXPECT_EQ(fault.rfind("stalled", 0), 0u) << fault;
    EXPECT_NE(fault.find(what), std::string::npos) << fault;
  };
  expect_wait(violation_of_losing_a<ReportMessage>(),
              "the leader waits for microbatches of step 0");
  expect_wait(violation_of_losing_a<ShareMessage>(), "the leader waits for the reduced gradients");
  expect_wait(violation_of_losing_a<CommitMessage>(),
              "the leader waits for microbatches of step 1");
}

TEST(RandomSwarm, WhatArrivesTwiceCountsOnce) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomSwarm swarm = draw_swarm(mix_bits(seed));
    DuplicatingLinks links(seed, swarm.links);
    SyntheticComputeFactory compute_factory(swarm.model);
    const SwarmEnd end = run_on(swarm, compute_factory, links);
    ASSERT_EQ(end.violation, "") << "seed " << swarm.seed << ": " << swarm.text();
  }
}

TEST(RandomSwarm, ADifferenceInTheLastBitIsADifference) {
  const RandomSwarm swarm = three_replicas();
  VirtualDisk disk;
  const RunRecord whole = run(swarm, {}, *make_compute_factory(swarm), disk).run_record;
  EXPECT_EQ(difference(whole, whole, true), "");
  RunRecord other = whole;
  other.rows[2].loss = std::nextafter(other.rows[2].loss, 100.0);
  EXPECT_NE(difference(other, whole, true).find("loss of step 2"), std::string::npos);
  other = whole;
  other.rows.pop_back();
  EXPECT_EQ(difference(other, whole, false), "");
  EXPECT_EQ(difference(other, whole, true), "3 rows instead of 4");
}

}  // namespace
}  // namespace swarmpi::random_swarm_test
