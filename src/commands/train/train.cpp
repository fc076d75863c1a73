#include "commands/train/train.hpp"

#include <cstdio>
#include <iostream>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "commands/train/banner.hpp"
#include "commands/train/handshake.hpp"
#include "commands/train/prepared_run.hpp"
#include "commands/train/rank.hpp"
#include "commands/train/refusal.hpp"
#include "config/deck.hpp"
#include "core/machine.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "report/summary.hpp"
#include "runtime/assembly.hpp"
#include "runtime/signals.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {
namespace {

// The steps of a start:
//   1. environment: standard streams, launcher                          main.cpp
//   2. options and deck                                                 commands/dispatch.cpp
//   3. data, outputs, start point: what one rank can check alone        prepare_run()
//   4. MPI                                                              train_with_others()
//   5. state: the stages that this rank serves, initial or loaded       make_own_stages()
//   6. handshake: all ranks fit together and see one folder             agree_to_start()
//   7. run                                                              run_alone(), run_rank()
//   8. end: the outcome is reported, MPI ends                           report_end(), finish()
// Signals are caught from step 3 on and delivered from step 7 on. A process without other ranks
// skips step 4; of step 6 it checks that its state is the checkpoint's.

// ---- Handshake

StartInfo start_info_of(const Result<PreparedRun>& prepared,
                        const std::optional<Result<StartedStages>>& stages) {
  StartInfo mine;
  mine.host = host_name();
  mine.build = build_line();
  mine.status = stages ? stages->status() : prepared.status();
  if (!mine.status.ok()) return mine;
  const PreparedRun& run = prepared.value();
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

// Returns the hosts of all ranks once all fit together, see the same folder, and rank 0 has removed
// an unfinished run that this one replaces. REQUIRES: all ranks call it.
Result<std::vector<std::string>> agree_to_start(MpiSession& session,
                                                const Result<PreparedRun>& prepared,
                                                const std::optional<Result<StartedStages>>& stages,
                                                bool dry_run) {
  const bool resumed = prepared.ok() && prepared.value().start.checkpoint;
  const std::uint64_t state_hash = resumed ? prepared.value().start.state.state_hash : 0;
  Result<std::vector<std::string>> hosts =
      exchange_start_info(session, start_info_of(prepared, stages), resumed, state_hash);
  if (!hosts.ok() || dry_run) return hosts;
  const PreparedRun& run = prepared.value();
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

// ---- Start banner, state, end

// What could not be printed (no room, closed) is said on stderr and does not change the exit
// status.
void discard_unwritten_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  std::fprintf(stderr, "swarmpi: standard output could not be written\n");
  if (std::freopen("/dev/null", "w", stdout) == nullptr) std::clearerr(stdout);
}

void report_end(const PreparedRun& run, const Outcome& outcome, bool quiet) {
  if (!outcome.reports_outcome) return;
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

std::string survived_losses(const Config& config, bool reports_lost_ranks) {
  const double suspect_after_s = config.swarm.suspect_after_s;
  if (config.swarm.recovery == Recovery::off) return "no loss of a rank (swarm.recovery = \"off\")";
  if (config.faults.mode == FaultsMode::emulated) {
    return format(
        "the deaths and cuts that [faults] emulates; a peer that is silent for %g s is killed",
        suspect_after_s);
  }
  if (reports_lost_ranks) {
    return format("the loss of any rank (ULFM); a rank that is silent for %g s is killed",
                  suspect_after_s);
  }
  return format(
      "this MPI (or mpirun without --with-ft ulfm) does not report lost ranks: mpirun ends the "
      "run, "
      "or this program after %g s of silence",
      suspect_after_s);
}

void print_banner(const PreparedRun& run, const std::vector<std::string>& hosts,
                  bool reports_lost_ranks) {
  BannerPeers peers;
  if (hosts.size() > 1) {
    peers.view = run.view;
    peers.hosts = static_cast<std::int64_t>(std::set(hosts.begin(), hosts.end()).size());
    peers.survives = survived_losses(run.config, reports_lost_ranks);
  }
  std::printf("%s\n",
              start_banner(run.config, run.specs, run.start, run.fingerprint, peers).c_str());
  std::fflush(stdout);
}

Result<StartedStages> make_own_stages(PreparedRun& run, std::int64_t peers_on_host) {
  return make_stages(run.config, run.own_specs(), *run.backend, run.start.checkpoint, run.workers(),
                     peers_on_host);
}

ExitStatus train_alone(PreparedRun& run, const TrainOptions& options, Inbox& inbox,
                       SignalWatch& signals) {
  if (!options.quiet || options.dry_run) print_banner(run, {host_name()}, false);
  if (options.dry_run) return ExitStatus::good;
  Result<StartedStages> started = make_own_stages(run, 1);
  Outcome outcome{started.status()};
  if (started.ok() && run.start.checkpoint) {
    outcome.status = verify_loaded(*run.start.checkpoint, started.value().hashes);
  }
  if (outcome.status.ok() && run.start.replaces) outcome.status = remove_unfinished(run.paths);
  if (outcome.status.ok()) {
    signals.deliver();
    outcome = run_alone(run, std::move(started.value().stages), inbox, options.quiet);
  }
  report_end(run, outcome, options.quiet);
  return outcome.status.code();
}

// All that the run has written is durable by now: an error of MPI_Finalize is printed, but does not
// change the exit status.
void finish(MpiSession& session) {
  const Status finished = session.finish();
  if (!finished.ok()) std::fprintf(stderr, "swarmpi: %s\n", finished.message().c_str());
}

// A rank whose preparation has failed starts MPI all the same: the handshake tells all others, and
// all leave together.
ExitStatus train_with_others(Result<PreparedRun>& prepared, const TrainOptions& options,
                             Inbox& inbox, SignalWatch& signals) {
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
      agree_to_start(session, prepared, started, options.dry_run);
  if (!hosts.ok()) {
    const Status status = with_place(options.config, hosts.status());
    if (first) std::fprintf(stderr, "swarmpi: %s\n", status.message().c_str());
    (void)session.finish();
    return status_of_rank(status.code(), first);
  }
  PreparedRun& run = prepared.value();
  if (first && (!options.quiet || options.dry_run)) {
    print_banner(run, hosts.value(), session.reports_lost_ranks());
  }
  if (options.dry_run) {
    finish(session);
    return ExitStatus::good;
  }
  signals.deliver();
  const Outcome outcome = run_rank(run, std::move(started->value().stages), session,
                                   host_list(hosts.value()), inbox, options.quiet);
  report_end(run, outcome, options.quiet);
  // Before MPI_Finalize, which may end this process.
  discard_unwritten_output();
  if (outcome.departed) MpiSession::leave();
  finish(session);
  if (!session.lost_a_rank()) return status_of_rank(outcome.status.code(), outcome.reports_outcome);
  await_turn_to_leave(session.rank());
  return outcome.status.code();
}

}  // namespace

ExitStatus run_training(const TrainOptions& options) {
  Inbox inbox;
  SignalWatch signals(inbox, !options.launcher.name.empty());
  survive_file_size_limits();
  Result<PreparedRun> prepared = prepare_run(options);
  ExitStatus status = ExitStatus::good;
  if (!options.launcher.alone()) {
    status = train_with_others(prepared, options, inbox, signals);
  } else if (!prepared.ok()) {
    status =
        refuse_to_start(options.launcher, with_place(options.config, prepared.status()), std::cerr);
  } else {
    status = train_alone(prepared.value(), options, inbox, signals);
  }
  discard_unwritten_output();
  return status;
}

}  // namespace swarmpi
