#include "run/train.hpp"

#include <cstdio>
#include <iostream>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "config/deck.hpp"
#include "core/clock.hpp"
#include "core/host_name.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "run/assembly.hpp"
#include "run/muster.hpp"
#include "run/preparation.hpp"
#include "run/progress.hpp"
#include "run/refusal.hpp"
#include "run/summary.hpp"
#include "run/welcome.hpp"
#include "transport/loopback.hpp"
#include "transport/mpi_session.hpp"
#include "transport/mpi_transport.hpp"
#include "worker/emulated_device.hpp"
#include "worker/fault_clock.hpp"
#include "worker/fault_triggers.hpp"
#include "worker/job_executor.hpp"
#include "worker/run_storage.hpp"
#include "worker/signals.hpp"
#include "worker/stage_compute.hpp"
#include "worker/worker.hpp"

namespace swarmpi {
namespace {

JournalBegin make_begin(const Preparation& run, const std::string& hosts) {
  JournalBegin begin;
  begin.incarnation = run.start.state.incarnation;
  begin.from_step = run.start.state.step;
  begin.delay = run.config.train.delay();
  begin.carries_history = run.start.carried.has_value();
  begin.must_agree = run.start.must_agree;
  begin.deck = resolved_deck(run.config);
  begin.seed = std::to_string(run.config.train.seed);
  begin.version = version_line();
  begin.build = build_line();
  begin.fingerprint = run.fingerprint;
  begin.hosts = hosts;
  return begin;
}

StoragePlan storage_plan(const Preparation& run, const std::string& hosts) {
  StoragePlan plan;
  plan.run_file = run.paths.run_file;
  plan.checkpoints = run.paths.checkpoints;
  if (run.start.checkpoint) plan.resumed_from = run.start.checkpoint->path();
  plan.keep = run.config.output.keep;
  plan.publish_every_s = run.config.output.publish_every_s;
  plan.delay = run.config.train.delay();
  plan.self = run.self;
  plan.first_term = run.roster.first_term.value;
  plan.begin = make_begin(run, hosts);
  plan.carried = run.start.carried;
  plan.prepare_thread = [&backend = *run.backend] { backend.prepare_thread(); };
  return plan;
}

// ---- The start of many

Introduction introduce(const Result<Preparation>& prepared,
                       const std::optional<Result<StartedStages>>& stages) {
  Introduction mine;
  mine.host = host_name();
  mine.build = build_line();
  mine.status = stages ? stages->status() : prepared.status();
  if (!mine.status.ok()) return mine;
  const Preparation& run = prepared.value();
  mine.deck = resolved_deck(run.config);
  mine.fingerprint = run.fingerprint;
  mine.step = run.start.state.step;
  const std::vector<StageSpec> served = run.own_specs();
  const std::vector<std::uint64_t>& hashes = stages->value().hashes;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    mine.stage_hashes[StageId(served[i].stage)] = hashes[i];
  }
  return mine;
}

// The hosts of all ranks: all fit together and see the same files, and the first has made room for
// the run. REQUIRES: all ranks call it.
Result<std::vector<std::string>> start_together(MpiSession& session,
                                                const Result<Preparation>& prepared,
                                                const std::optional<Result<StartedStages>>& stages,
                                                bool dry_run) {
  const bool resumed = prepared.ok() && prepared.value().start.checkpoint;
  const std::uint64_t state_hash = resumed ? prepared.value().start.state.state_hash : 0;
  Result<std::vector<std::string>> hosts =
      muster(session, introduce(prepared, stages), resumed, state_hash);
  if (!hosts.ok() || dry_run) return hosts;
  const Preparation& run = prepared.value();
  if (Status status = prove_folder_shared(session, run.paths.run_file); !status.ok()) return status;
  const bool removes = run.start.replaces && run.self == PeerId(0);
  const Status removed = removes ? remove_unfinished(run.paths) : Status();
  if (Status status = all_agree(session, removed); !status.ok()) return status;
  return hosts;
}

std::string host_list(const std::vector<std::string>& hosts) {
  std::string list;
  for (const std::string& host : std::set<std::string>(hosts.begin(), hosts.end())) {
    list += (list.empty() ? "" : " ") + host;
  }
  return list;
}

// ---- The run

// How this rank's part went, and whether it is its to tell.
struct Outcome {
  Status status;
  bool speaks = true;
  bool left = false;  // and the others go on
};

// What a peer must know of where it runs.
struct Surroundings {
  std::string hosts;
  std::int64_t peers_on_host = 1;
  bool recovers = false;  // deaths are heard of
};

RunPlan run_plan(const Preparation& run, const Surroundings& around) {
  RunPlan plan = make_plan(run.config, run.specs, run.workers());
  plan.validation_microbatches = run.data.validation_microbatches();
  plan.recovers = around.recovers && run.config.swarm.recovery != "off";
  plan.kept_bytes = plan.recovers ? kept_for_repairs_bytes(run.config) : 0;
  return plan;
}

// The step after which the deck has a bit of this peer's state flipped.
std::optional<Step> flip_after(const Preparation& run) {
  for (const FaultAt& fault : run.config.faults_at) {
    if (fault.event == "flip" && fault.peer == run.self.value) return Step(fault.step);
  }
  return std::nullopt;
}

std::unique_ptr<EmulatedDevice> emulated_device(const Preparation& run) {
  if (run.config.compute.fidelity != "emulated") return nullptr;
  const std::optional<DeviceConfig> device = device_of(run.config, run.self);
  return device ? std::make_unique<EmulatedDevice>(run.config, run.specs, *device) : nullptr;
}

void warn_if_late(PeerId self, const EmulatedDevice& device) {
  const std::string text = unfaithful(device.fidelity());
  if (!text.empty()) std::fprintf(stderr, "swarmpi: peer %d: %s\n", self.value, text.c_str());
}

// The four seams, and one peer that runs on them.
Outcome train(Preparation& run, Stages stages, Transport& transport, PayloadPool& payloads,
              const Surroundings& around, Inbox& inbox, SignalWatch& signals, bool quiet) {
  WallClock clock;
  bool has_stages = !stages.empty();
  const auto make_stage = [&](StageId stage) {
    const bool first = !std::exchange(has_stages, true);
    return make_empty_stage(run.config, run.specs, stage, *run.backend, first, run.workers(),
                            around.peers_on_host);
  };
  JobExecutor executor(run.config, tokens_of(run.data), payloads, std::move(stages),
                       flip_after(run), make_stage);
  const std::unique_ptr<EmulatedDevice> device = emulated_device(run);
  StageCompute compute(executor, *run.backend, clock, inbox, device.get());
  RunStorage storage(storage_plan(run, around.hosts), executor, clock, inbox);
  Peer peer(run.self, run_plan(run, around), run.roster, run.start.state);
  Progress progress(run.config, stdout, quiet);
  FaultTriggers triggers(run.config.faults_at, run.self);
  Worker worker(
      peer, {clock, transport, compute, storage}, inbox,
      [&](const StoreRecord& record) { progress.show(record, clock.now_s()); },
      [&](const Action& action) {
        if (const auto event = triggers.due(action)) strike(*event, inbox);
      });
  const FaultClock fault_clock(run.faults, run.start.state.time_s, inbox);
  signals.deliver();
  const Status status = worker.run();
  progress.end_line();
  if (device) warn_if_late(run.self, *device);

  const bool failed = status.code() == ExitStatus::no;
  const Status closed = storage.close(failed ? "invalid: " + status.message() : "open");
  return {status.ok() ? closed : status, peer.speaks() || (status.ok() && !closed.ok()),
          peer.left()};
}

// A run whose messages nobody could take is as good as any other.
void forget_unwritten_messages() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  std::fprintf(stderr, "swarmpi: standard output could not be written\n");
  if (std::freopen("/dev/null", "w", stdout) == nullptr) std::clearerr(stdout);
}

void report_end(const Preparation& run, const Outcome& outcome, bool quiet) {
  if (!outcome.speaks) return;
  const Status& status = outcome.status;
  if (!status.ok()) std::fprintf(stderr, "swarmpi: %s\n", status.message().c_str());
  if (status.code() == ExitStatus::stopped) {
    std::fprintf(stderr, "swarmpi: stopped; go on with --resume %s\n",
                 run.paths.checkpoints.c_str());
  }
  if (quiet) return;
  const Result<RunFile> file = read_run_file(run.paths.run_file);
  if (!file.ok()) return;
  std::printf("\n%s\nrun file     %s\ncheckpoints  %s\n", run_summary(file.value()).c_str(),
              run.paths.run_file.c_str(), run.paths.checkpoints.c_str());
}

void say_welcome(const Preparation& run, const std::vector<std::string>& hosts,
                 bool reports_lost_ranks) {
  WelcomePeers peers;
  if (hosts.size() > 1) {
    peers.view = run.view;
    peers.hosts = static_cast<std::int64_t>(std::set(hosts.begin(), hosts.end()).size());
    peers.survives =
        reports_lost_ranks && run.config.swarm.recovery != "off"
            ? format("the loss of any rank (ULFM); one that is silent for %g s is killed",
                     run.config.swarm.suspect_after_s)
            : format(
                  "this MPI (or mpirun without --with-ft ulfm) does not report lost ranks: "
                  "mpirun, or a silence of %g s, ends the run",
                  run.config.swarm.suspect_after_s);
  }
  std::printf("%s\n", welcome(run.config, run.specs, run.start, run.fingerprint, peers).c_str());
  std::fflush(stdout);
}

Result<StartedStages> make_own_stages(Preparation& run, std::int64_t peers_on_host) {
  return make_stages(run.config, run.own_specs(), *run.backend, run.start.checkpoint, run.workers(),
                     peers_on_host);
}

ExitStatus run_alone(Preparation& run, const TrainOptions& options, Inbox& inbox,
                     SignalWatch& signals) {
  if (!options.quiet || options.dry_run) say_welcome(run, {host_name()}, false);
  if (options.dry_run) return ExitStatus::good;
  Result<StartedStages> started = make_own_stages(run, 1);
  Outcome outcome{started.status()};
  if (started.ok() && run.start.checkpoint) {
    outcome.status = verify_loaded(*run.start.checkpoint, started.value().hashes);
  }
  if (outcome.status.ok() && run.start.replaces) outcome.status = remove_unfinished(run.paths);
  if (outcome.status.ok()) {
    PayloadPool payloads;
    LoopbackTransport transport(run.self);
    outcome = train(run, std::move(started.value().stages), transport, payloads, {host_name()},
                    inbox, signals, options.quiet);
  }
  report_end(run, outcome, options.quiet);
  return outcome.status.code();
}

// All that matters is durable by now: MPI's own end changes nothing about how the run went.
void finish(MpiSession& session) {
  const Status finished = session.finish();
  if (!finished.ok()) std::fprintf(stderr, "swarmpi: %s\n", finished.message().c_str());
}

// What one rank alone finds wrong, all must hear of: so they meet first, and leave together.
ExitStatus run_with_others(Result<Preparation>& prepared, const TrainOptions& options, Inbox& inbox,
                           SignalWatch& signals) {
  Result<std::unique_ptr<MpiSession>> opened = MpiSession::start();
  if (!opened.ok()) {
    std::fprintf(stderr, "swarmpi: %s\n", opened.status().message().c_str());
    return opened.status().code();
  }
  MpiSession& session = *opened.value();
  const bool first = session.rank() == 0;
  std::optional<Result<StartedStages>> started;
  if (prepared.ok()) started = make_own_stages(prepared.value(), session.ranks_on_host());
  const Result<std::vector<std::string>> hosts =
      start_together(session, prepared, started, options.dry_run);
  if (!hosts.ok()) {
    const Status status = with_place(options.config, hosts.status());
    if (first) std::fprintf(stderr, "swarmpi: %s\n", status.message().c_str());
    (void)session.finish();
    return status_of_rank(status.code(), first);
  }
  Preparation& run = prepared.value();
  if (first && (!options.quiet || options.dry_run)) {
    say_welcome(run, hosts.value(), session.reports_lost_ranks());
  }
  if (options.dry_run) {
    finish(session);
    return ExitStatus::good;
  }
  Outcome outcome;
  {
    PayloadPool payloads;
    MpiTransport transport(session, payloads);
    const Surroundings around{host_list(hosts.value()), session.ranks_on_host(),
                              session.reports_lost_ranks()};
    outcome = train(run, std::move(started->value().stages), transport, payloads, around, inbox,
                    signals, options.quiet);
  }
  report_end(run, outcome, options.quiet);
  if (outcome.left) {
    forget_unwritten_messages();
    MpiSession::leave();
  }
  finish(session);
  if (!session.lost_a_rank()) return status_of_rank(outcome.status.code(), outcome.speaks);
  await_turn_to_leave(session.rank());
  return outcome.status.code();
}

}  // namespace

ExitStatus run_training(const TrainOptions& options) {
  Inbox inbox;
  SignalWatch signals(inbox, !options.launcher.name.empty());
  survive_file_size_limits();
  Result<Preparation> prepared = prepare(options);
  ExitStatus status = ExitStatus::good;
  if (!options.launcher.alone()) {
    status = run_with_others(prepared, options, inbox, signals);
  } else if (!prepared.ok()) {
    status =
        refuse_to_start(options.launcher, with_place(options.config, prepared.status()), std::cerr);
  } else {
    status = run_alone(prepared.value(), options, inbox, signals);
  }
  forget_unwritten_messages();
  return status;
}

}  // namespace swarmpi
