#include "commands/bench/swarm.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "commands/bench/null_peer.hpp"
#include "commands/train/handshake.hpp"
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
#include "protocol/messages/record_port.hpp"
#include "protocol/record_observer.hpp"
#include "runtime/assembly.hpp"
#include "runtime/job_executor.hpp"
#include "runtime/peer_loop.hpp"
#include "runtime/stage_compute.hpp"
#include "transport/mpi/link_speed.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace swarmpi {
namespace {

using Json = nlohmann::ordered_json;

constexpr BoundaryBytes kTinyBoundaries{64, 64};
constexpr std::int64_t kMicrobatchesPerStep = 64;
constexpr double kWiringS = 5;

// The leader's records of a benchmark's steps, without the first, which warms up.
struct StepRecords final : RecordObserver {
  std::vector<double> row_times_s;
  std::map<std::int64_t, double> seal_to_commit_s;  // by step
  std::map<std::int64_t, std::int64_t> bytes_sent;  // by peer

  void stored(double, const StoreRecord& record) override {
    if (const auto* row = std::get_if<StepRow>(&record.row)) row_times_s.push_back(row->time_s);
    if (const auto* use = std::get_if<PeerRow>(&record.row); use && use->step > 1) {
      bytes_sent[use->peer] += use->bytes_sent;
    }
    const auto* event = std::get_if<EventRow>(&record.row);
    if (event && event->kind == EventKind::commit && event->step > 1) {
      seal_to_commit_s[event->step] = event->cost_s;
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

// What both benchmarks start from, on every rank.
struct SwarmBench {
  Config config;
  std::vector<StageSpec> specs;
  std::unique_ptr<MpiSession> session;

  std::int64_t ranks() const { return session->ranks(); }
  bool first() const { return session->rank() == 0; }
};

Result<Config> checked_config(const BenchOptions& options, const Launcher& launcher,
                              const std::vector<std::string>& defaults) {
  if (launcher.ranks < 2) {
    return Status::bad_input(
        "bench wiring and bench reduce measure a swarm: start two ranks or more, as in mpirun -n 2 "
        "swarmpi bench wiring");
  }
  std::vector<std::string> overrides = defaults;
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  Result<Config> config = bench_config(overrides);
  if (!config.ok()) return config.status();
  if (Status status = check_ranks(config.value(), launcher.ranks); !status.ok()) return status;
  return config;
}

// Starts MPI and runs `work` on every rank; prints its error once.
template <class Work>
ExitStatus run_on_all_ranks(const Result<Config>& config, const Launcher& launcher,
                            std::ostream& error, const Work& work) {
  if (!config.ok()) return refuse_to_start(launcher, config.status(), error);
  Result<std::unique_ptr<MpiSession>> session = open_session(launcher);
  if (!session.ok()) {
    error << "swarmpi: " << session.status().message() << std::endl;
    return session.status().code();
  }
  SwarmBench bench{config.value(), partition_model(config.value()), std::move(session).value()};
  const Status status = work(bench);
  const bool reports = bench.first() || bench.session->lost_a_rank();
  if (!status.ok() && reports) error << "swarmpi: " << status.message() << std::endl;
  (void)bench.session->finish();
  if (bench.session->lost_a_rank()) await_turn_to_leave(bench.session->rank());
  return status_of_rank(status.code(), reports);
}

RunPlan make_bench_plan(const SwarmBench& bench) {
  RunPlan plan = make_plan(bench.config, bench.specs, bench.ranks());
  plan.validate_every = 0;
  plan.checkpoint_every = -1;
  return plan;
}

// All but the storage, which keeps nothing.
struct BenchSeams {
  Clock& clock;
  Transport& transport;
  Compute& compute;
  CollectivesSeam* collectives = nullptr;
};

Status run_bench_peer(SwarmBench& bench, const RunPlan& plan, const BenchSeams& seams, Inbox& inbox,
                      const std::vector<Observer*>& observers) {
  NoStorage storage(inbox);
  const PeerId self(bench.session->rank());
  Peer peer(self, plan, make_membership(bench.ranks(), bench.config.swarm.spares), {});
  PeerLoop loop(peer, {seams.clock, seams.transport, seams.compute, storage, seams.collectives},
                inbox);
  for (Observer* const observer : observers) loop.watch(*observer);
  return loop.run();
}

// ---- Wiring

struct WiringFigures {
  double microbatches_per_s = 0;
  double messages_per_s = 0;       // of all ranks
  double busiest_bytes_per_s = 0;  // payloads sent by the rank that sends most
};

Result<WiringFigures> measure_wiring(SwarmBench& bench, const BoundaryBytes& bytes) {
  const RunPlan plan = make_bench_plan(bench);
  StepRecords records;
  TransportCounters counters;
  WallClock clock;
  {
    PayloadPool payloads;
    Inbox inbox;
    MpiTransport transport(*bench.session, payloads);
    NullCompute compute(plan, bytes, payloads, inbox);
    const Status status =
        run_bench_peer(bench, plan, {clock, transport, compute}, inbox, {&records});
    if (!status.ok()) return status;
    counters = transport.counters();
  }
  double messages = 0;
  for (const std::string& of_rank : bench.session->gather(std::to_string(counters.messages_sent))) {
    messages += std::stod(of_rank);
  }
  WiringFigures figures;
  if (!bench.first()) return figures;
  const double done = records.steps() * static_cast<double>(plan.train.microbatches);
  figures.microbatches_per_s = done / records.seconds();
  figures.messages_per_s = messages / clock.now_s();
  figures.busiest_bytes_per_s = static_cast<double>(records.most_bytes_sent()) / records.seconds();
  return figures;
}

void print_wiring(const SwarmBench& bench, const LinkSpeed& link, const WiringFigures& bare,
                  const WiringFigures& full, bool json, std::ostream& out) {
  const double share = full.busiest_bytes_per_s / link.bytes_per_s;
  const BoundaryBytes bytes = boundary_bytes(bench.config);
  const std::string activations = readable_bytes(static_cast<double>(bytes.activations));
  const std::string gradients = readable_bytes(static_cast<double>(bytes.gradients));
  if (json) {
    out << Json{{"bench", "wiring"},
                {"version", version_line()},
                {"cpu", this_machine().cpu},
                {"ranks", bench.ranks()},
                {"stages", bench.config.swarm.stages},
                {"wiring", name_of(bench.config.swarm.wiring)},
                {"activation_bytes", bytes.activations},
                {"gradient_bytes", bytes.gradients},
                {"link_half_round_trip_s", link.half_round_trip_s},
                {"link_bytes_per_s", link.bytes_per_s},
                {"bare_microbatches_per_s", bare.microbatches_per_s},
                {"bare_messages_per_s", bare.messages_per_s},
                {"microbatches_per_s", full.microbatches_per_s},
                {"busiest_rank_bytes_per_s", full.busiest_bytes_per_s},
                {"share_of_link", share}}
        << "\n";
    return;
  }
  out << fmt::format("wiring: {} ranks, {} stages, {}, {} microbatches in flight\n", bench.ranks(),
                     bench.config.swarm.stages, name_of(bench.config.swarm.wiring),
                     bench.config.swarm.in_flight(bench.ranks()))
      << fmt::format(
             "MPI between ranks 0 and 1: {:.2f} us half round trip, {:.3g} GB/s one way at {}\n",
             1e6 * link.half_round_trip_s, 1e-9 * link.bytes_per_s, activations)
      << fmt::format("protocol alone: {:.0f} microbatches/s, {:.0f} messages/s of all ranks\n",
                     bare.microbatches_per_s, bare.messages_per_s)
      << fmt::format(
             "with activations of {} and gradients of {}: {:.0f} microbatches/s; the busiest rank "
             "sends {:.3g} GB/s, {:.0f}% of what the link gives\n",
             activations, gradients, full.microbatches_per_s, 1e-9 * full.busiest_bytes_per_s,
             100 * share);
}

// ---- Reduction

TokenSource random_tokens(const Config& config) {
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

struct ReductionFigures {
  StepRecords records;
  StepsByCollective by_collective;

  std::vector<double> seal_to_commit_s(bool collective) const {
    std::vector<double> all;
    for (const auto& [step, took_s] : records.seal_to_commit_s) {
      if (by_collective.contains(Step(step)) == collective) all.push_back(took_s);
    }
    return all;
  }
};

// How long a rank at its end waits for a call of NCCL that does not come back.
constexpr double kLastCallsS = 10;

// Null where there are none.
std::unique_ptr<NcclCollectives> collectives_of(const SwarmBench& bench,
                                                const kernels::Backend& backend,
                                                JobExecutor& executor, CollectiveResults& results,
                                                Inbox& inbox) {
  const PeerId self(bench.session->rank());
  auto made = make_collectives(bench.config, self, backend, executor, results, inbox);
  if (made.ok()) return std::move(made).value();
  std::fprintf(stderr, "swarmpi: rank %d: no collectives: %s\n", self.value,
               made.status().message().c_str());
  return nullptr;
}

Result<ReductionFigures> measure_reduction(SwarmBench& bench) {
  const Config& config = bench.config;
  Result<std::unique_ptr<kernels::Backend>> backend = make_backend(config);
  const Status usable = all_agree(*bench.session, backend.status());
  if (!usable.ok()) return usable;
  const RunPlan plan = make_bench_plan(bench);
  const View view = first_view(config, bench.ranks(), plan.stage_costs);
  std::vector<StageSpec> own;
  for (const StageSpec& spec : bench.specs) {
    if (view.serves(PeerId(bench.session->rank()), StageId(spec.stage))) own.push_back(spec);
  }
  Result<StartedStages> started =
      make_stages(config, own, *backend.value(), std::nullopt, bench.ranks(), bench.ranks());
  SWARMPI_CHECK(started.ok(), "make_stages() cannot fail without a checkpoint");

  WallClock clock;
  ReductionFigures figures;
  PayloadPool payloads(payload_memory(*backend.value()));
  Inbox inbox;
  MpiTransport transport(*bench.session, payloads);
  JobExecutor executor(PeerId(bench.session->rank()), config, random_tokens(config), payloads,
                       std::move(started.value().stages));
  KernelRunner kernels(executor, clock);
  CollectiveResults results;
  PayloadCopies copies(*backend.value(), inbox, config.compute.job_timeout_s);
  executor.copy_beside_jobs(copies);
  StageCompute compute(kernels, *backend.value(), inbox, &copies);
  const auto collectives = collectives_of(bench, *backend.value(), executor, results, inbox);
  const Status status = run_bench_peer(bench, plan, {clock, transport, compute, collectives.get()},
                                       inbox, {&figures.records, &figures.by_collective});
  compute.settle(kLastCallsS);
  if (collectives != nullptr && !collectives->end(kLastCallsS)) {
    std::fprintf(stderr, "swarmpi: rank %d: a call of NCCL has not come back\n",
                 bench.session->rank());
  }
  if (!status.ok()) return status;
  return figures;
}

void print_reduction(const SwarmBench& bench, const LinkSpeed& link,
                     const ReductionFigures& figures, bool json, std::ostream& out) {
  const StepRecords& records = figures.records;
  // A collective is made while the first steps go point to point.
  const std::vector<double> collective_s = figures.seal_to_commit_s(true);
  const std::vector<double> direct_s = figures.seal_to_commit_s(false);
  const bool by_collective = !collective_s.empty();
  const Spread time_s = spread(by_collective ? collective_s : direct_s);
  const double steps = static_cast<double>(records.seal_to_commit_s.size());
  const double sent = static_cast<double>(records.most_bytes_sent()) / steps;
  const double gradient = 4.0 * static_cast<double>(parameter_count(bench.config));
  const double share = sent / time_s.median / link.bytes_per_s;
  if (json) {
    out << Json{{"bench", "reduce"},
                {"version", version_line()},
                {"cpu", this_machine().cpu},
                {"ranks", bench.ranks()},
                {"stages", bench.config.swarm.stages},
                {"gradient_bytes", gradient},
                {"steps_by_collective", collective_s.size()},
                {"steps_point_to_point", direct_s.size()},
                {"link_bytes_per_s", link.bytes_per_s},
                {"seal_to_commit_s_median", time_s.median},
                {"seal_to_commit_s_min", time_s.min},
                {"seal_to_commit_s_max", time_s.max},
                {"busiest_rank_bytes_per_step", sent},
                {"share_of_link", share}}
        << "\n";
    return;
  }
  out << fmt::format("reduce: {} ranks, {} stages, gradients of {} in fp32\n", bench.ranks(),
                     bench.config.swarm.stages, readable_bytes(gradient))
      << fmt::format("MPI between ranks 0 and 1: {:.3g} GB/s one way at 1 MiB\n",
                     1e-9 * link.bytes_per_s)
      << fmt::format(
             "seal to commit: {:.4f} s (min {:.4f}, max {:.4f} of {} steps{}), {:.3g} GB/s of "
             "gradient\n",
             time_s.median, time_s.min, time_s.max,
             by_collective ? collective_s.size() : direct_s.size(), by_collective ? " by NCCL" : "",
             1e-9 * gradient / time_s.median)
      << fmt::format(
             "the busiest rank sends {} a step: {:.3g} GB/s, {:.0f}% of what the link gives\n",
             readable_bytes(sent), 1e-9 * sent / time_s.median, 100 * share);
  if (!bench.config.swarm.has_collectives() || direct_s.empty()) return;
  out << fmt::format(
      "point to point, before NCCL was ready or after it had failed: {:.4f} s of {} "
      "steps\n",
      spread(direct_s).median, direct_s.size());
}

}  // namespace

// Fewer steps on slow links, so that all boundaries of a run take about kWiringS.
void shorten_to_fit(Config& config, const LinkSpeed& link) {
  const auto step_bytes =
      static_cast<double>(config.train.microbatches * boundary_bytes(config).both()) / 2;
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
  return run_on_all_ranks(config, launcher, error, [&](SwarmBench& bench) {
    const BoundaryBytes bytes = boundary_bytes(bench.config);
    const LinkSpeed link =
        measure_link(*bench.session, static_cast<std::size_t>(bytes.activations));
    shorten_to_fit(bench.config, link);
    const Result<WiringFigures> bare = measure_wiring(bench, kTinyBoundaries);
    if (!bare.ok()) return bare.status();
    const Result<WiringFigures> full = measure_wiring(bench, bytes);
    if (full.ok() && bench.first()) {
      print_wiring(bench, link, bare.value(), full.value(), options.json, out);
    }
    return full.status();
  });
}

ExitStatus run_bench_reduce(const BenchOptions& options, const Launcher& launcher,
                            std::ostream& out, std::ostream& error) {
  const Result<Config> config = checked_config(
      options, launcher, {"train.steps=8", "train.microbatches=" + std::to_string(launcher.ranks)});
  return run_on_all_ranks(config, launcher, error, [&](SwarmBench& bench) {
    const LinkSpeed link = measure_link(*bench.session, std::size_t{1} << 20);
    const Result<ReductionFigures> figures = measure_reduction(bench);
    if (figures.ok() && bench.first()) {
      print_reduction(bench, link, figures.value(), options.json, out);
    }
    return figures.status();
  });
}

}  // namespace swarmpi
