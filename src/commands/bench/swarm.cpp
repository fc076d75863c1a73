#include "commands/bench/swarm.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "commands/bench/json.hpp"
#include "commands/bench/null_peer.hpp"
#include "commands/train/handshake.hpp"
#include "commands/train/refusal.hpp"
#include "config/rules.hpp"
#include "core/check.hpp"
#include "core/clock.hpp"
#include "core/machine.hpp"
#include "core/random.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "model/cost.hpp"
#include "model/make_backend.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "runtime/assembly.hpp"
#include "runtime/job_executor.hpp"
#include "runtime/peer_loop.hpp"
#include "runtime/stage_compute.hpp"
#include "transport/mpi/link_speed.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace swarmpi {
namespace {

constexpr std::size_t kTinyBoundaryBytes = 64;
constexpr std::int64_t kMicrobatchesPerStep = 64;
constexpr double kWiringS = 5;

// What the leader's records tell of a benchmark's steps. The first step is left out: it warms up.
struct Seen {
  std::vector<double> row_times_s;
  std::vector<double> seal_to_commit_s;
  std::map<std::int64_t, std::int64_t> bytes_sent;  // by peer

  void note(const StoreRecord& record) {
    if (const auto* row = std::get_if<StepRow>(&record.row)) row_times_s.push_back(row->time_s);
    if (const auto* use = std::get_if<PeerRow>(&record.row); use && use->step > 1) {
      bytes_sent[use->peer] += use->bytes_sent;
    }
    const auto* event = std::get_if<EventRow>(&record.row);
    if (event && event->kind == "commit" && event->step > 1) {
      seal_to_commit_s.push_back(event->cost_s);
    }
  }
  double seconds() const { return row_times_s.back() - row_times_s[1]; }
  double steps() const { return static_cast<double>(row_times_s.size() - 2); }
  std::int64_t most_bytes_sent() const {
    std::int64_t most = 0;
    for (const auto& [peer, bytes] : bytes_sent) most = std::max(most, bytes);
    return most;
  }
};

// All that the two benchmarks start from, on every rank.
struct Setting {
  Config config;
  std::vector<StageSpec> specs;
  std::unique_ptr<MpiSession> session;

  std::int64_t ranks() const { return session->ranks(); }
  bool first() const { return session->rank() == 0; }
};

Result<Config> checked_config(const BenchOptions& options, const Launcher& launcher,
                              const std::vector<std::string>& defaults) {
  if (launcher.ranks < 2) {
    return Status::bad_input("this measures a swarm: mpirun -n 2 swarmpi bench ..., or more ranks");
  }
  std::vector<std::string> overrides = defaults;
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  Result<Config> config = bench_config(overrides);
  if (!config.ok()) return config.status();
  if (Status status = check_ranks(config.value(), launcher.ranks); !status.ok()) return status;
  return config;
}

// Does `work` on every rank that can begin.
template <class Work>
ExitStatus measure(const Result<Config>& config, const Launcher& launcher, std::ostream& error,
                   const Work& work) {
  if (!config.ok()) return refuse_to_start(launcher, config.status(), error);
  Result<std::unique_ptr<MpiSession>> session = MpiSession::start();
  if (!session.ok()) {
    error << "swarmpi: " << session.status().message() << std::endl;
    return session.status().code();
  }
  const auto& model = config.value().model;
  Setting setting{config.value(), partition_model(model, config.value().swarm.stages),
                  std::move(session).value()};
  const Status status = work(setting);
  const bool tells = setting.first() || setting.session->lost_a_rank();
  if (!status.ok() && tells) error << "swarmpi: " << status.message() << std::endl;
  (void)setting.session->finish();
  if (setting.session->lost_a_rank()) await_turn_to_leave(setting.session->rank());
  return status_of_rank(status.code(), tells);
}

RunPlan make_bench_plan(const Setting& setting) {
  RunPlan plan = make_plan(setting.config, setting.specs, setting.ranks());
  plan.validate_every = 0;
  plan.checkpoint_every = -1;
  return plan;
}

Status run_peer(Setting& setting, const RunPlan& plan, Transport& transport, Compute& compute,
                WallClock& clock, Inbox& inbox, Seen& seen) {
  NoStorage storage(inbox);
  const PeerId self(setting.session->rank());
  Peer peer(self, plan, make_membership(setting.ranks(), setting.config.swarm.spares), {});
  PeerLoop worker(peer, {clock, transport, compute, storage}, inbox,
                  [&](const StoreRecord& record) { seen.note(record); });
  return worker.run();
}

// ---- Wiring

struct WiringFigures {
  double microbatches_per_s = 0;
  double messages_per_s = 0;       // of all ranks
  double busiest_bytes_per_s = 0;  // payloads sent by the rank that sends most
};

Result<WiringFigures> wire(Setting& setting, std::size_t bytes) {
  const RunPlan plan = make_bench_plan(setting);
  Seen seen;
  TransportCounters counters;
  WallClock clock;
  {
    PayloadPool payloads;
    Inbox inbox;
    MpiTransport transport(*setting.session, payloads);
    NullCompute compute(plan, bytes, payloads, inbox);
    const Status status = run_peer(setting, plan, transport, compute, clock, inbox, seen);
    if (!status.ok()) return status;
    counters = transport.counters();
  }
  double messages = 0;
  for (const std::string& of_rank :
       setting.session->gather(std::to_string(counters.messages_sent))) {
    messages += std::stod(of_rank);
  }
  WiringFigures figures;
  if (!setting.first()) return figures;
  const double done = seen.steps() * static_cast<double>(plan.train.microbatches);
  figures.microbatches_per_s = done / seen.seconds();
  figures.messages_per_s = messages / clock.now_s();
  figures.busiest_bytes_per_s = static_cast<double>(seen.most_bytes_sent()) / seen.seconds();
  return figures;
}

void print_wiring(const Setting& setting, const LinkSpeed& link, const WiringFigures& bare,
                  const WiringFigures& full, bool json, std::ostream& out) {
  const double share = full.busiest_bytes_per_s / link.bytes_per_s;
  const auto bytes = static_cast<double>(boundary_bytes(setting.config));
  if (json) {
    out << JsonObject()
               .add("bench", "wiring")
               .add("version", version_line())
               .add("cpu", this_machine().cpu)
               .add("ranks", setting.ranks())
               .add("stages", setting.config.swarm.stages)
               .add("wiring", setting.config.swarm.wiring)
               .add("boundary_bytes", bytes)
               .add("link_half_round_trip_s", link.half_round_trip_s)
               .add("link_bytes_per_s", link.bytes_per_s)
               .add("bare_microbatches_per_s", bare.microbatches_per_s)
               .add("bare_messages_per_s", bare.messages_per_s)
               .add("microbatches_per_s", full.microbatches_per_s)
               .add("busiest_rank_bytes_per_s", full.busiest_bytes_per_s)
               .add("share_of_link", share)
               .text()
        << "\n";
    return;
  }
  out << format("wiring: %lld ranks, %lld stages, %s, %lld microbatches in flight\n",
                static_cast<long long>(setting.ranks()),
                static_cast<long long>(setting.config.swarm.stages),
                setting.config.swarm.wiring.c_str(),
                static_cast<long long>(window(setting.config, setting.ranks())))
      << format("MPI between ranks 0 and 1: %.2f us half round trip, %.3g GB/s one way at %s\n",
                1e6 * link.half_round_trip_s, 1e-9 * link.bytes_per_s,
                readable_bytes(bytes).c_str())
      << format("protocol alone: %.0f microbatches/s, %.0f messages/s of all ranks\n",
                bare.microbatches_per_s, bare.messages_per_s)
      << format(
             "with boundaries of %s: %.0f microbatches/s; the busiest rank sends %.3g GB/s, "
             "%.0f%% of what the link gives\n",
             readable_bytes(bytes).c_str(), full.microbatches_per_s,
             1e-9 * full.busiest_bytes_per_s, 100 * share);
}

// ---- Reduction

TokenSource made_up_tokens(const Config& config) {
  return
      [vocab = static_cast<std::uint32_t>(config.model.vocab)](
          const MicrobatchId& id, std::span<std::int32_t> inputs, std::span<std::int32_t> targets) {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const PhiloxBlock block = philox(static_cast<std::uint64_t>(id.step.value), Stream::test,
                                           static_cast<std::uint32_t>(id.index), i);
          inputs[i] = static_cast<std::int32_t>(block[0] % vocab);
          targets[i] = static_cast<std::int32_t>(block[1] % vocab);
        }
        return Status();
      };
}

Result<Seen> reduce(Setting& setting) {
  const Config& config = setting.config;
  Result<std::unique_ptr<kernels::Backend>> backend = make_backend(config);
  const Status able = all_agree(*setting.session, backend.status());
  if (!able.ok()) return able;
  const RunPlan plan = make_bench_plan(setting);
  const View view = first_view(config, setting.ranks(), plan.stage_costs);
  std::vector<StageSpec> own;
  for (const StageSpec& spec : setting.specs) {
    if (view.serves(PeerId(setting.session->rank()), StageId(spec.stage))) own.push_back(spec);
  }
  Result<StartedStages> started =
      make_stages(config, own, *backend.value(), std::nullopt, setting.ranks(), setting.ranks());
  SWARMPI_CHECK(started.ok(), "without a checkpoint nothing can go wrong");

  WallClock clock;
  Seen seen;
  PayloadPool payloads;
  Inbox inbox;
  MpiTransport transport(*setting.session, payloads);
  JobExecutor executor(config, made_up_tokens(config), payloads, std::move(started.value().stages));
  StageCompute compute(executor, *backend.value(), clock, inbox);
  const Status status = run_peer(setting, plan, transport, compute, clock, inbox, seen);
  if (!status.ok()) return status;
  return seen;
}

void print_reduction(const Setting& setting, const LinkSpeed& link, const Seen& seen, bool json,
                     std::ostream& out) {
  const Spread time_s = spread(seen.seal_to_commit_s);
  const double steps = static_cast<double>(seen.seal_to_commit_s.size());
  const double sent = static_cast<double>(seen.most_bytes_sent()) / steps;
  const double gradient = 4.0 * static_cast<double>(parameter_count(setting.config.model));
  const double share = sent / time_s.median / link.bytes_per_s;
  if (json) {
    out << JsonObject()
               .add("bench", "reduce")
               .add("version", version_line())
               .add("cpu", this_machine().cpu)
               .add("ranks", setting.ranks())
               .add("stages", setting.config.swarm.stages)
               .add("gradient_bytes", gradient)
               .add("link_bytes_per_s", link.bytes_per_s)
               .add("seal_to_commit_s_median", time_s.median)
               .add("seal_to_commit_s_min", time_s.min)
               .add("seal_to_commit_s_max", time_s.max)
               .add("busiest_rank_bytes_per_step", sent)
               .add("share_of_link", share)
               .text()
        << "\n";
    return;
  }
  out << format("reduce: %lld ranks, %lld stages, gradients of %s in fp32\n",
                static_cast<long long>(setting.ranks()),
                static_cast<long long>(setting.config.swarm.stages),
                readable_bytes(gradient).c_str())
      << format("MPI between ranks 0 and 1: %.3g GB/s one way at 1 MiB\n", 1e-9 * link.bytes_per_s)
      << format(
             "seal to commit: %.4f s (min %.4f, max %.4f of %.0f steps), %.3g GB/s of gradient\n",
             time_s.median, time_s.min, time_s.max, steps, 1e-9 * gradient / time_s.median)
      << format("the busiest rank sends %s a step: %.3g GB/s, %.0f%% of what the link gives\n",
                readable_bytes(sent).c_str(), 1e-9 * sent / time_s.median, 100 * share);
}

}  // namespace

// Slow links carry fewer steps: all boundaries of a run in about kWiringS.
void shorten(Config& config, const LinkSpeed& link) {
  const auto step_bytes =
      static_cast<double>(config.train.microbatches) * static_cast<double>(boundary_bytes(config));
  const double fit = kWiringS * link.bytes_per_s / step_bytes;
  config.train.steps =
      std::clamp(static_cast<std::int64_t>(fit), std::int64_t{3}, config.train.steps);
}

ExitStatus run_bench_wiring(const BenchOptions& options, const Launcher& launcher,
                            std::ostream& out, std::ostream& error) {
  const Result<Config> config = checked_config(
      options, launcher,
      {"swarm.stages=2", "train.steps=40",
       "train.microbatches=" + std::to_string(kMicrobatchesPerStep), "swarm.window=8"});
  return measure(config, launcher, error, [&](Setting& setting) {
    const LinkSpeed link = measure_link(*setting.session, boundary_bytes(setting.config));
    shorten(setting.config, link);
    const Result<WiringFigures> bare = wire(setting, kTinyBoundaryBytes);
    if (!bare.ok()) return bare.status();
    const Result<WiringFigures> full = wire(setting, boundary_bytes(setting.config));
    if (full.ok() && setting.first()) {
      print_wiring(setting, link, bare.value(), full.value(), options.json, out);
    }
    return full.status();
  });
}

ExitStatus run_bench_reduce(const BenchOptions& options, const Launcher& launcher,
                            std::ostream& out, std::ostream& error) {
  const Result<Config> config = checked_config(
      options, launcher, {"train.steps=8", "train.microbatches=" + std::to_string(launcher.ranks)});
  return measure(config, launcher, error, [&](Setting& setting) {
    const LinkSpeed link = measure_link(*setting.session, std::size_t{1} << 20);
    const Result<Seen> seen = reduce(setting);
    if (seen.ok() && setting.first()) {
      print_reduction(setting, link, seen.value(), options.json, out);
    }
    return seen.status();
  });
}

}  // namespace swarmpi
