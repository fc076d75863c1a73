#include "regression/recovery_traffic.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "config/deck.hpp"
#include "core/clock.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "model/cost.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "runtime/assembly.hpp"
#include "simulation/random_models.hpp"
#include "simulation/real_compute.hpp"
#include "simulation/traffic_count.hpp"
#include "torture/swarm_run.hpp"

namespace swarmpi {
namespace {

// Time decides only how many heartbeats there are: that of one core, and of shared memory.
constexpr double kFlopsPerS = 20e9;
constexpr double kOtherJobS = 1e-4;
constexpr double kLinkS = 1e-5;
constexpr double kLinkBytesPerS = 1e10;

class SteadyLinks final : public LinkModel {
 public:
  Delivery deliver(PeerId, PeerId, const Message& message, double) override {
    return {kLinkS + static_cast<double>(payload_bytes(message)) / kLinkBytesPerS, 1};
  }
};

class CountedFlops final : public CostModel {
 public:
  CountedFlops(const Config& config, const std::vector<StageSpec>& specs)
      : config_(config), specs_(specs) {}
  double seconds(PeerId, const Job& job) override {
    StageId stage;
    if (const auto* forward = std::get_if<ForwardJob>(&job)) stage = forward->work.stage;
    if (const auto* backward = std::get_if<BackwardJob>(&job)) stage = backward->work.stage;
    const StageSpec& spec = specs_.at(static_cast<std::size_t>(stage.value));
    const double flops = job_flops(config_, spec, job);
    return flops > 0 ? flops / kFlopsPerS : kOtherJobS;
  }

 private:
  const Config& config_;
  const std::vector<StageSpec>& specs_;
};

struct Run {
  SwarmSetting setting;
  TrafficCount traffic{setting.plan};
  SwarmEnd end;
};

// Its kernels are real: the sums that are sent are as long as their numbers make them.
void run_deck(const Config& config, std::int64_t peers, bool recovers, Run& run) {
  const std::vector<StageSpec> specs = partition_model(config.model, config.swarm.stages);
  SwarmSetting& setting = run.setting;
  setting.membership = make_membership(peers, config.swarm.spares);
  setting.plan =
      make_plan(config, specs, static_cast<std::int64_t>(setting.membership.workers.size()));
  setting.plan.recovers = recovers;
  setting.plan.kept_bytes = recovers ? std::int64_t{1} << 50 : 0;
  RealComputeFactory compute_factory(config);
  setting.compute = [&](PeerId id) {
    return compute_factory.make(id, setting.plan, setting.membership, setting.resume);
  };
  SteadyLinks links;
  CountedFlops costs(config, specs);
  RandomDisks disks(1, {});
  VirtualDisk disk;
  run.end = run_swarm(setting, links, costs, disks, disk, &run.traffic);
  if (run.end.violation.empty() && !run.end.status.ok())
    run.end.violation = run.end.status.message();
}

// ---- Text

constexpr std::array<std::pair<MessageClass, const char*>, kMessageClasses> kRows{{
    {MessageClass::boundary, "boundaries (activations, gradients)"},
    {MessageClass::wiring, "wiring (issue, forward done)"},
    {MessageClass::report, "reports"},
    {MessageClass::reduction, "reduction (shares, chunks)"},
    {MessageClass::commit, "seal, reduced, commit"},
    {MessageClass::heartbeat, "heartbeats"},
    {MessageClass::other, "the rest (views, tables, end)"},
}};

double per(std::int64_t sum, std::int64_t of) {
  return static_cast<double>(sum) / static_cast<double>(of);
}

void print_table(const TrafficCount& traffic, std::int64_t microbatches) {
  const auto boundary = static_cast<double>(traffic.between(MessageClass::boundary).bytes);
  std::printf("  %-38s %9s %11s %11s %10s %11s\n", "a microbatch", "messages", "bytes", "payload",
              "boundaries", "to itself");
  for (const auto& [message_class, name] : kRows) {
    const Traffic& row = traffic.between(message_class);
    std::printf("  %-38s %9.3f %11.1f %11.1f %9.3f%% %9.1f B\n", name,
                per(row.messages, microbatches), per(row.bytes, microbatches),
                per(row.payload_bytes, microbatches),
                100 * static_cast<double>(row.bytes) / boundary,
                per(traffic.within(message_class).bytes, microbatches));
  }
}

void print_kept(const Run& run, std::int64_t boundary_bytes) {
  const TrafficCount& traffic = run.traffic;
  const auto line = [&](const std::string& who, std::int64_t bytes) {
    std::printf("  %s at most %lld bytes: %.1f boundaries\n", who.c_str(),
                static_cast<long long>(bytes), per(bytes, boundary_bytes));
  };
  for (const auto& [peer, bytes] : traffic.most_kept_bytes()) {
    line(format("peer %d keeps", peer.value), bytes);
  }
  if (traffic.most_kept_bytes().empty()) return;
  line("all together keep", traffic.most_kept_together_bytes());
  const std::int64_t open = run.setting.plan.train.microbatches * run.setting.plan.delay();
  std::printf("  for each of the %lld microbatches of the open steps %.0f bytes\n",
              static_cast<long long>(open), per(traffic.most_kept_together_bytes(), open));
}

void print(const char* name, const Run& run, std::int64_t microbatches,
           std::int64_t boundary_bytes) {
  std::printf("\n%s: %.3f virtual seconds, %.2f ms a microbatch\n", name, run.end.seconds,
              1e3 * run.end.seconds / static_cast<double>(microbatches));
  print_table(run.traffic, microbatches);
  print_kept(run, boundary_bytes);
}

}  // namespace

int count_traffic(const std::string& deck, std::int64_t peers, std::int64_t steps) {
  Result<Config> loaded = load_deck(deck, {});
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", loaded.status().message().c_str());
    return 2;
  }
  Config config = std::move(loaded).value();
  config.train.steps = steps;
  config.output.validate_every = 0;
  config.output.checkpoint_every = 0;
  const WallClock clock;
  Run off, on;
  run_deck(config, peers, false, off);
  run_deck(config, peers, true, on);
  for (const Run* run : {&off, &on}) {
    if (run->end.violation.empty()) continue;
    std::printf("%s\n", run->end.violation.c_str());
    return 1;
  }
  const std::int64_t microbatches = (steps + 1) * config.train.microbatches;  // with step 0
  const std::int64_t boundary_bytes = config.train.microbatch_size * config.model.context *
                                      config.model.width * static_cast<std::int64_t>(sizeof(float));
  std::printf(
      "swarmpi %s\n%s: %lld peers, %lld stages, %lld steps of %lld microbatches, step 0 "
      "beside them; a boundary is %lld bytes\n",
      version_line().c_str(), deck.c_str(), static_cast<long long>(peers),
      static_cast<long long>(config.swarm.stages), static_cast<long long>(steps),
      static_cast<long long>(config.train.microbatches), static_cast<long long>(boundary_bytes));
  std::printf("Messages between peers as the wire carries them: prefix, header, payload.\n");
  print("recovery off", off, microbatches, boundary_bytes);
  print("recovery on (lineage)", on, microbatches, boundary_bytes);
  const double reports = static_cast<double>(on.traffic.between(MessageClass::report).bytes +
                                             on.traffic.within(MessageClass::report).bytes);
  const double boundaries = static_cast<double>(on.traffic.between(MessageClass::boundary).bytes);
  std::printf("\nreports, those to itself included: %.3f %% of the boundaries\n",
              100 * reports / boundaries);
  const bool same = off.traffic.same_except_upkeep(on.traffic);
  std::printf(
      "with and without recovery the same messages, but for signs of life and the rest: %s\n%.1f "
      "s\n",
      same ? "yes" : "no", clock.now_s());
  return same ? 0 : 1;
}

}  // namespace swarmpi
