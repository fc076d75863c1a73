#include "commands/train/train.hpp"

#include <cstdio>
#include <iostream>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "commands/train/banner.hpp"
#include "commands/train/handshake.hpp"
#include "commands/train/preparation.hpp"
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

// ---- The start of many

StartInfo introduce(const Result<Preparation>& prepared,
                    const std::optional<Result<StartedStages>>& stages) {
  StartInfo mine;
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
      exchange_start_info(session, introduce(prepared, stages), resumed, state_hash);
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

// A run whose messages nobody could take is as good as any other.
void forget_unwritten_messages() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  std::fprintf(stderr, "swarmpi: standard output could not be written\n");
  if (std::freopen("/dev/null", "w", stdout) == nullptr) std::clearerr(stdout);
}

void report_end(const Preparation& run, const Outcome& outcome, bool quiet) {
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

std::string survival(const Config& config, bool reports_lost_ranks) {
  const double suspect_after_s = config.swarm.suspect_after_s;
  if (config.swarm.recovery == "off") return "no loss of a rank (swarm.recovery = \"off\")";
  if (config.faults.mode == "emulated") {
    return format("peers that fall silent as the deck says; one that is silent for %g s is killed",
                  suspect_after_s);
  }
  if (reports_lost_ranks) {
    return format("the loss of any rank (ULFM); one that is silent for %g s is killed",
                  suspect_after_s);
  }
  return format(
      "this MPI (or mpirun without --with-ft ulfm) does not report lost ranks: mpirun, or a "
      "silence "
      "of %g s, ends the run",
      suspect_after_s);
}

void say_welcome(const Preparation& run, const std::vector<std::string>& hosts,
                 bool reports_lost_ranks) {
  WelcomePeers peers;
  if (hosts.size() > 1) {
    peers.view = run.view;
    peers.hosts = static_cast<std::int64_t>(std::set(hosts.begin(), hosts.end()).size());
    peers.survives = survival(run.config, reports_lost_ranks);
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
    signals.deliver();
    outcome = run_alone(run, std::move(started.value().stages), inbox, options.quiet);
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
  signals.deliver();
  const Outcome outcome = run_rank(run, std::move(started->value().stages), session,
                                   host_list(hosts.value()), inbox, options.quiet);
  report_end(run, outcome, options.quiet);
  // Now: MPI's end may be that of this process.
  forget_unwritten_messages();
  if (outcome.left) MpiSession::leave();
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
