#include "torture/wiring_speed.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <variant>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "protocol/messages/all_jobs.hpp"
#include "protocol/method/layout.hpp"
#include "simulation/random_models.hpp"
#include "simulation/synthetic_compute.hpp"
#include "torture/random_swarm.hpp"
#include "torture/swarm_run.hpp"

namespace swarmpi {
namespace {

constexpr auto kReplicas = static_cast<std::int32_t>(WiringScene::kReplicas);
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
    return visit(Overloaded{[](const ForwardJob&) { return kForwardS; },
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

RandomSwarm swarm_of(const WiringScene& scene) {
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

// Every peer busy all the time, in proportion to its speed.
double perfect_s(const WiringScene& scene) {
  const double speed = kReplicas - 1 + 1 / scene.slow_ratio;
  return (kForwardS + kBackwardS) * static_cast<double>(scene.microbatches) / speed;
}

double ideal_s(const WiringScene& scene) {
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

// A pipeline fills, works, and drains: as if it had as many microbatches more as there are other
// stages. In GPipe a microbatch takes a forward pass more, but in the last stage, which nobody
// waits for.
double textbook_s(const WiringScene& scene) {
  const auto of_pipeline = static_cast<double>(scene.microbatches / kReplicas);
  const auto others = static_cast<double>(scene.stages - 1);
  if (scene.method != Method::gpipe || scene.stages == 1) {
    return (of_pipeline + others) * (kForwardS + kBackwardS);
  }
  return (of_pipeline + others - 1) * (2 * kForwardS + kBackwardS);
}

}  // namespace

std::int64_t WiringScene::default_window() const {
  SwarmConfig config;
  config.stages = stages;
  return config.in_flight(kReplicas * stages);
}

double step_s(const WiringScene& scene) {
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
  SWARMPI_CHECK(end.violation.empty(), end.violation);
  const auto& rows = end.run_record.rows;
  return (rows.back().time_s - rows[kWarmUp].time_s) /
         static_cast<double>(rows.size() - 1 - kWarmUp);
}

double share_of_perfect_balance(const WiringScene& scene) {
  return perfect_s(scene) / step_s(scene);
}

double share_of_ideal(const WiringScene& scene) { return ideal_s(scene) / step_s(scene); }

double share_of_textbook(const WiringScene& scene) { return textbook_s(scene) / step_s(scene); }

}  // namespace swarmpi
