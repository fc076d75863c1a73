// The throughput of each wiring, on equal peers and on peers of different speed, compared with the
// ideal and with perfect balance.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>

#include "core/overloaded.hpp"
#include "protocol/method/layout.hpp"
#include "simulation/random_models.hpp"
#include "simulation/synthetic_compute.hpp"
#include "torture/random_swarm.hpp"
#include "torture/swarm_run.hpp"

namespace swarmpi {
namespace {

constexpr std::int32_t kReplicas = 4;  // of each stage
constexpr double kForwardS = 1e-3;
constexpr double kBackwardS = 2e-3;
constexpr double kLinkS = 1e-5;

// One peer of each stage may be slower than its fellows. Passes alone take time; in the last stage
// forward and backward pass are one job, and GPipe computes each forward pass again.
class PassTimes final : public CostModel {
 public:
  PassTimes(const RunPlan& plan, const View& view, double slow_ratio)
      : plan_(plan), slow_ratio_(slow_ratio) {
    for (std::int32_t s = 0; s < plan.stages(); ++s) {
      slow_.insert(view.replicas(StageId(s)).back());
    }
  }
  double seconds(PeerId peer, const Job& job) override {
    return pass_s(job) * (slow_.contains(peer) ? slow_ratio_ : 1);
  }
  double pass_s(const Job& job) const {
    return std::visit(Overloaded{[](const ForwardJob&) { return kForwardS; },
                                 [this](const BackwardJob& j) {
                                   const bool last = j.work.stage.value + 1 == plan_.stages();
                                   const bool both = last || plan_.swarm.method == Method::gpipe;
                                   return both ? kForwardS + kBackwardS : kBackwardS;
                                 },
                                 [](const auto&) { return 0.0; }},
                      job);
  }

 private:
  const RunPlan& plan_;
  double slow_ratio_;
  std::set<PeerId> slow_;
};

class InstantDisk final : public DiskModel {
 public:
  WriteAnswer write(PeerId, const Action&) override { return {}; }
};

struct Scene {
  std::int64_t stages = 1;
  std::int64_t microbatches = 52;
  double slow_ratio = 1;
  std::uint64_t seed = 1;
  Wiring wiring = Wiring::iwrr;
  WiringTies ties = WiringTies::rotated;
  std::int64_t window = 0;  // 0: wide
  Method method = Method::swarm;

  SwarmConfig swarm() const {
    SwarmConfig config;
    config.stages = stages;
    config.wiring = wiring;
    config.wiring_ties = ties;
    config.seed = seed;
    return config;
  }
};

RandomSwarm swarm_of(const Scene& scene) {
  RandomSwarm swarm = alone(draw_swarm(1));
  RunPlan& plan = swarm.plan;
  plan.train.steps = 20;
  plan.train.microbatches = swarm.model.microbatches = scene.microbatches;
  plan.train.updates = Updates::synchronous;
  plan.swarm.wiring = scene.wiring;
  plan.swarm.wiring_ties = scene.ties;
  plan.swarm.seed = scene.seed;
  plan.window = scene.window > 0 ? scene.window : 4 * kReplicas * scene.stages;
  plan.swarm.method = scene.method;
  if (plan.swarm.has_pipelines()) plan.window = kNoWindow;
  plan.validate_every = 0;
  swarm.model.flag_chance = 0;
  plan.tensor_names.clear();
  plan.tensor_elements.clear();
  plan.stage_tensors.clear();
  plan.stage_costs.assign(static_cast<std::size_t>(scene.stages), 1.0);
  for (std::int32_t s = 0; s < scene.stages; ++s) {
    plan.tensor_names.push_back("tensor." + std::to_string(s));
    plan.tensor_elements.push_back(10000);
    plan.stage_tensors.push_back({s});
  }
  swarm.membership.workers.clear();
  for (std::int32_t i = 0; i < kReplicas * scene.stages; ++i)
    swarm.membership.workers.push_back(PeerId(i));
  return swarm;
}

// Seconds a step, after the first ones.
double step_s(const Scene& scene) {
  constexpr std::size_t kWarmUp = 3;
  const RandomSwarm swarm = swarm_of(scene);
  const View view = deal_peers(swarm.membership.workers, {}, swarm.plan.stage_costs);
  PassTimes costs(swarm.plan, view, scene.slow_ratio);
  SyntheticComputeFactory compute_factory(swarm.model);
  RandomLinks links(scene.seed, {.least_s = kLinkS, .most_s = kLinkS});
  InstantDisk disks;
  VirtualDisk disk;
  SwarmSetting setting;
  setting.plan = swarm.plan;
  setting.membership = swarm.membership;
  setting.compute = [&](PeerId id) {
    return compute_factory.make(id, swarm.plan, swarm.membership, ResumeState{});
  };
  const SwarmEnd end = run_swarm(setting, links, costs, disks, disk);
  EXPECT_EQ(end.violation, "");
  const auto& rows = end.run_record.rows;
  return (rows.back().time_s - rows[kWarmUp].time_s) /
         static_cast<double>(rows.size() - 1 - kWarmUp);
}

// Every peer busy all the time, in proportion to its speed.
double perfect_s(const Scene& scene) {
  const double speed = kReplicas - 1 + 1 / scene.slow_ratio;
  return (kForwardS + kBackwardS) * static_cast<double>(scene.microbatches) / speed;
}

// T*: no wiring can be faster. A stage waits at the head of a step for the first activations, and
// at its tail for the last gradients to come back through the stages before it; between them its
// peers do whole microbatches.
double ideal_s(const Scene& scene) {
  double ideal = 0;
  const double each = kForwardS + kBackwardS;
  for (std::int64_t stage = 0; stage < scene.stages; ++stage) {
    const double waits = static_cast<double>(stage) * (each + 2 * kLinkS);
    const auto done_within = [&](double time_s) {
      const double room = (time_s - waits) / each + 1e-9;
      return (kReplicas - 1) * std::floor(room) + std::floor(room / scene.slow_ratio);
    };
    double time_s = waits;
    while (done_within(time_s) < static_cast<double>(scene.microbatches)) time_s += each;
    ideal = std::max(ideal, time_s);
  }
  return ideal;
}

double share_of_perfect_balance(const Scene& scene) { return perfect_s(scene) / step_s(scene); }
double share_of_ideal(const Scene& scene) { return ideal_s(scene) / step_s(scene); }

// Random ties are printed beside them, and the window that a deck has by default.
TEST(EqualPeers, RotatedTiesReachTheIdeal) {
  for (const std::int64_t stages : {1, 2, 4, 8}) {
    for (const std::int64_t microbatches : {52, 208}) {
      for (const std::uint64_t seed : {1, 2, 3}) {
        Scene scene{.stages = stages, .microbatches = microbatches, .seed = seed};
        const double wide = share_of_ideal(scene);
        EXPECT_GE(wide, 0.97);
        scene.window = scene.swarm().in_flight(kReplicas * stages);
        const double narrow = share_of_ideal(scene);
        scene.window = 0;
        scene.ties = WiringTies::random;
        std::printf("%d stages, %3d microbatches: rotated %.3f, random %.3f, default window %.3f\n",
                    static_cast<int>(stages), static_cast<int>(microbatches), wide,
                    share_of_ideal(scene), narrow);
      }
    }
  }
}

// A pipeline fills, works, and drains: as if it had as many microbatches more as there are other
// stages. In GPipe a microbatch takes a forward pass more, but in the last stage, which nobody
// waits for.
double textbook_s(const Scene& scene) {
  const auto of_pipeline = static_cast<double>(scene.microbatches / kReplicas);
  const auto others = static_cast<double>(scene.stages - 1);
  if (scene.method != Method::gpipe || scene.stages == 1) {
    return (of_pipeline + others) * (kForwardS + kBackwardS);
  }
  return (of_pipeline + others - 1) * (2 * kForwardS + kBackwardS);
}

// What SWARM is compared with is not slower than its authors say.
TEST(EqualPeers, StaticPipelinesReachTheTimesOfTheirTextbooks) {
  for (const std::int64_t stages : {1, 2, 4, 8}) {
    for (const std::int64_t microbatches : {52, 208}) {
      Scene scene{.stages = stages, .microbatches = microbatches};
      std::string line = fmt::format("{} stages, {:3} microbatches:", stages, microbatches);
      for (const Method method : {Method::gpipe, Method::one_f_one_b, Method::data_parallel}) {
        if (method == Method::data_parallel && stages > 1) continue;
        scene.method = method;
        const double share = textbook_s(scene) / step_s(scene);
        EXPECT_GE(share, 0.97) << name_of(method) << " " << line;
        line += fmt::format("  {} {:.3f}", name_of(method), share);
      }
      std::printf("%s\n", line.c_str());
    }
  }
}

TEST(UnevenPeers, IwrrComesCloseToPerfectBalanceAndFixedDoesNot) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    Scene scene{.slow_ratio = 4, .seed = seed};
    EXPECT_GE(share_of_perfect_balance(scene), 0.95) << "seed " << seed;
    scene.wiring = Wiring::fixed;
    EXPECT_LE(share_of_perfect_balance(scene), 0.35) << "seed " << seed;
    // Filling and draining a pipeline takes time, whatever the wiring.
    scene = {.stages = 2, .microbatches = 208, .slow_ratio = 4, .seed = seed};
    EXPECT_GE(share_of_perfect_balance(scene), 0.9) << "seed " << seed;
  }
}

double mean_share(Scene scene) {
  double sum = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    scene.seed = seed;
    sum += share_of_perfect_balance(scene);
  }
  return sum / 3;
}

TEST(UnevenPeers, WhoeverLooksAtSpeedWinsInEveryShape) {
  for (const std::int64_t stages : {1, 2, 4, 8}) {
    for (const std::int64_t microbatches : {40, 52, 104, 208}) {
      Scene scene{.stages = stages, .microbatches = microbatches, .slow_ratio = 4};
      std::string line = fmt::format("{} stages, {:3} microbatches:", stages, microbatches);
      const double iwrr = mean_share(scene);
      scene.ties = WiringTies::random;
      const double random_ties = mean_share(scene);
      line += fmt::format("  iwrr {:.3f}, random ties {:.3f}", iwrr, random_ties);
      EXPECT_GT(iwrr, 0.95 * random_ties) << line;
      for (const Wiring wiring : {Wiring::uniform, Wiring::round_robin, Wiring::fixed}) {
        scene.wiring = wiring;
        const double other = share_of_perfect_balance(scene);
        line += fmt::format("  {} {:.3f}", name_of(wiring), other);
        EXPECT_GT(iwrr, 2 * other) << line;
      }
      std::printf("%s\n", line.c_str());
    }
  }
}

}  // namespace
}  // namespace swarmpi
