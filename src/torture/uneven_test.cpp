// The throughput of each wiring on peers of different speed, compared with perfect balance.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

#include "core/overloaded.hpp"
#include "simulation/random_models.hpp"
#include "simulation/synthetic_compute.hpp"
#include "torture/random_swarm.hpp"
#include "torture/swarm_run.hpp"

namespace swarmpi {
namespace {

// One peer of each stage is slower than its fellows. Passes alone take time: a forward pass 1 ms, a
// backward pass 2 ms, in the last stage both in one job.
class OneSlowPeer final : public CostModel {
 public:
  OneSlowPeer(const RunPlan& plan, const View& view, double ratio) : plan_(plan), ratio_(ratio) {
    for (std::int32_t s = 0; s < plan.stages(); ++s) {
      slow_.insert(view.replicas(StageId(s)).back());
    }
  }
  double seconds(PeerId peer, const Job& job) override {
    return pass_s(job) * (slow_.contains(peer) ? ratio_ : 1);
  }
  double pass_s(const Job& job) const {
    return std::visit(Overloaded{[](const ForwardJob&) { return 1e-3; },
                                 [this](const BackwardJob& j) {
                                   const bool last = j.work.stage.value + 1 == plan_.stages();
                                   return last ? 3e-3 : 2e-3;
                                 },
                                 [](const auto&) { return 0.0; }},
                      job);
  }

 private:
  const RunPlan& plan_;
  double ratio_;
  std::set<PeerId> slow_;
};

class InstantDisk final : public DiskModel {
 public:
  WriteAnswer write(PeerId, const Action&) override { return {}; }
};

// The share of perfect balance that a swarm of four replicas a stage, one of them four times
// slower, reaches after its first steps.
double share_of_perfect_balance(Wiring wiring, std::int64_t stages, std::int64_t microbatches,
                                std::uint64_t seed) {
  constexpr double kRatio = 4;
  constexpr std::int32_t kReplicas = 4;
  constexpr std::size_t kWarmUp = 3;
  RandomSwarm swarm = alone(draw_swarm(1));
  RunPlan& plan = swarm.plan;
  plan.train.steps = 20;
  plan.train.microbatches = swarm.model.microbatches = microbatches;
  plan.train.updates = Updates::synchronous;
  plan.swarm.wiring = wiring;
  plan.swarm.seed = seed;
  plan.window = 4 * kReplicas * stages;
  plan.validate_every = 0;
  swarm.model.flag_chance = 0;
  plan.tensor_names.clear();
  plan.tensor_elements.clear();
  plan.stage_tensors.clear();
  plan.stage_costs.assign(static_cast<std::size_t>(stages), 1.0);
  for (std::int32_t s = 0; s < stages; ++s) {
    plan.tensor_names.push_back("tensor." + std::to_string(s));
    plan.tensor_elements.push_back(10000);
    plan.stage_tensors.push_back({s});
  }
  swarm.membership.workers.clear();
  for (std::int32_t i = 0; i < kReplicas * stages; ++i)
    swarm.membership.workers.push_back(PeerId(i));

  const View view = deal_peers(swarm.membership.workers, {}, plan.stage_costs);
  OneSlowPeer costs(plan, view, kRatio);
  SyntheticComputeFactory compute_factory(swarm.model);
  RandomLinks links(seed, {.least_s = 1e-5, .most_s = 1e-5});
  InstantDisk disks;
  VirtualDisk disk;
  SwarmSetting setting;
  setting.plan = plan;
  setting.membership = swarm.membership;
  setting.compute = [&](PeerId id) {
    return compute_factory.make(id, plan, swarm.membership, ResumeState{});
  };
  const SwarmEnd end = run_swarm(setting, links, costs, disks, disk);
  EXPECT_EQ(end.violation, "");
  const auto& rows = end.run_record.rows;
  const double step_s =
      (rows.back().time_s - rows[kWarmUp].time_s) / static_cast<double>(rows.size() - 1 - kWarmUp);
  const double perfect_s = 3e-3 * static_cast<double>(microbatches) / (kReplicas - 1 + 1 / kRatio);
  return perfect_s / step_s;
}

TEST(UnevenPeers, IwrrComesCloseToPerfectBalanceAndFixedDoesNot) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    EXPECT_GE(share_of_perfect_balance(Wiring::iwrr, 1, 52, seed), 0.95) << "seed " << seed;
    EXPECT_LE(share_of_perfect_balance(Wiring::fixed, 1, 52, seed), 0.35) << "seed " << seed;
    // Filling and draining a pipeline takes time, whatever the wiring.
    EXPECT_GE(share_of_perfect_balance(Wiring::iwrr, 2, 208, seed), 0.9) << "seed " << seed;
  }
}

TEST(UnevenPeers, WhoeverLooksAtSpeedWinsInEveryShape) {
  for (const std::int64_t stages : {1, 2, 4}) {
    for (const std::int64_t microbatches : {40, 52, 104, 208}) {
      std::string line = fmt::format("{} stages, {:3} microbatches:", stages, microbatches);
      const double iwrr = share_of_perfect_balance(Wiring::iwrr, stages, microbatches, 1);
      line += fmt::format("  iwrr {:.3f}", iwrr);
      for (const Wiring wiring : {Wiring::uniform, Wiring::round_robin, Wiring::fixed}) {
        const double other = share_of_perfect_balance(wiring, stages, microbatches, 1);
        line += fmt::format("  {} {:.3f}", name_of(wiring), other);
        EXPECT_GT(iwrr, 2 * other) << line;
      }
      std::printf("%s\n", line.c_str());
    }
  }
}

}  // namespace
}  // namespace swarmpi
