#include "commands/train/train.hpp"

#include <unistd.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "commands/damaged.hpp"
#include "commands/train/banner.hpp"
#include "commands/train/handshake.hpp"
#include "commands/train/prepared_run.hpp"
#include "commands/train/rank.hpp"
#include "commands/train/share_lines.hpp"
#include "commands/train/shared_folders.hpp"
#include "config/deck.hpp"
#include "core/machine.hpp"
#include "core/text.hpp"
#include "hardware/device.hpp"
#include "report/summary.hpp"
#include "runtime/signals.hpp"
#include "transport/mpi/settings.hpp"

namespace swarmpi {
namespace {

Result<Config> read_deck(const Result<TrainOptions>& options) {
  if (!options.ok()) return options.status();
  const TrainOptions& given = options.value();
  if (given.joins) return parse_deck(given.joins->deck, "the run's deck", {});
  return load_deck(given.deck, given.overrides);
}

// Only a run that may need it has several threads use MPI: all else stays as it is tested most.
// Mistakes in the deck are told later, by all ranks together.
bool starts_processes(const TrainOptions& options) {
  const Result<Config> deck = read_deck(options);
  return deck.ok() && deck.value().swarm.spawn;
}

// Whether this process, and all others that start with it, see what the others of the run write.
Status share_folders(MpiSession& session, PreparedRun& run) {
  const std::optional<RunningSwarm>& joins = run.options.joins;
  if (joins) {
    run.shared_file = joins->probes;  // they have been looked for: receive_options()
    return {};
  }
  Result<std::string> proven = prove_folders_shared(session, run.config, run.paths);
  if (!proven.ok()) return proven.status();
  run.shared_file = std::move(proven).value();
  return {};
}

// Whether all ranks together have room for all stages. A newcomer is told of the others' budgets.
Status deal_stages(PreparedRun& run, const std::vector<StartInfo>& ranks) {
  Budgets budgets;
  if (run.options.joins) {
    budgets = run.options.joins->budgets;
    if (run.budget_bytes) budgets[run.self] = *run.budget_bytes;
    run.needs = run.options.joins->needs;
    return run.deal_stages(std::move(budgets));
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    run.needs.raise_to(ranks[r].needs);  // all must plan alike
    if (ranks[r].budget_bytes) {
      budgets[PeerId(static_cast<std::int32_t>(r))] = *ranks[r].budget_bytes;
    }
  }
  return run.deal_stages(std::move(budgets));
}

StartInfo start_info_of(const PreparedRun& run) {
  StartInfo info = own_start_info({});
  Config deck = run.config;
  deck.data.hash = run.given_data_hash;
  info.deck = resolved_deck(deck);
  info.data_files = run.data.identity();
  info.data_hash = run.config.data.hash;
  info.fingerprint = run.fingerprint;
  info.step = run.start.state.step;
  info.first_term = run.start.first_term;
  info.budget_bytes = run.budget_bytes;
  info.needs = run.needs;
  if (run.start.checkpoint) info.damaged = run.start.checkpoint->passed_over();
  return info;
}

// Exchanges what all ranks have prepared. One rank of each host has read the data; whoever sees
// other files does so in a second round, after which each rank has a hash or has failed. Where one
// has found a checkpoint to be damaged that others take for whole, all find their start anew. That
// ends: each time there must be more of them, and a rank may not have all, for its host may see
// other checkpoints.
Result<std::vector<StartInfo>> agree_on_start(MpiSession& session, Result<PreparedRun>& prepared) {
  Status found = prepared.status();
  std::size_t known = 0;
  while (true) {
    const StartInfo mine = found.ok() ? start_info_of(prepared.value()) : own_start_info(found);
    Result<std::vector<StartInfo>> ranks = gather_start_info(session, mine);
    if (!ranks.ok()) return ranks;
    const std::string hash = data_hashes(ranks.value())[static_cast<std::size_t>(session.rank())];
    if (prepared.ok()) prepared.value().config.data.hash = hash;
    if (has_unread_data(ranks.value())) {
      if (hash.empty()) found = with_place(prepared.value().config, prepared.value().read_data());
      continue;
    }
    std::vector<DamagedCheckpoint> damaged = damaged_unknown_to_some(ranks.value());
    if (damaged.size() > known) {
      known = damaged.size();
      if (mine.damaged.size() == known) continue;  // it has found all of them itself
      found = with_place(prepared.value().config,
                         prepared.value().find_start(session, std::move(damaged)));
      continue;
    }
    const bool allow_mixed = prepared.ok() && prepared.value().config.swarm.allow_mixed;
    if (Status status = check_compatible(ranks.value(), allow_mixed); !status.ok()) return status;
    const std::int64_t first = first_term(ranks.value());
    if (first != prepared.value().start.first_term) {
      const Status counted = prepared.value().count_terms_from(session, first);
      if (!counted.ok()) return counted;
    }
    if (allow_mixed) {
      const std::optional<Checkpoint>& resumed = prepared.value().start.checkpoint;
      prepared.value().fingerprint =
          mixed_fingerprint(ranks.value(), resumed ? resumed->head().fingerprint : "");
    }
    return ranks;
  }
}

// Returns the hosts of all ranks once all fit together and see the same folders.
Result<std::vector<std::string>> shake_hands(MpiSession& session, Result<PreparedRun>& prepared) {
  const Result<std::vector<StartInfo>> ranks = agree_on_start(session, prepared);
  if (!ranks.ok()) return ranks.status();
  if (Status dealt = deal_stages(prepared.value(), ranks.value()); !dealt.ok()) return dealt;
  std::vector<std::string> hosts;
  for (const StartInfo& rank : ranks.value()) hosts.push_back(rank.host);
  if (Status lines = check_common_lines(session, prepared.value()); !lines.ok()) return lines;
  if (prepared.value().options.dry_run) return hosts;
  if (Status shared = share_lines(session, prepared.value()); !shared.ok()) return shared;
  if (Status shared = share_folders(session, prepared.value()); !shared.ok()) return shared;
  return hosts;
}

// What one rank does for all, before any of them runs. A newcomer finds it done.
Status take_outputs(PreparedRun& run) {
  if (run.options.joins) return {};
  Result<Descriptor> claimed = claim_checkpoints(run.paths);
  if (!claimed.ok()) return claimed.status();
  run.claim = std::move(claimed).value();
  if (!run.start.checkpoint) return {};
  return set_aside_damaged(run.paths, run.start.checkpoint->passed_over());
}

// Returns the stages that this peer serves, initial or loaded, once all ranks have theirs and rank
// 0 has taken the folder of checkpoints, and set aside what is damaged there.
Result<Stages> make_state(MpiSession& session, PreparedRun& run) {
  Result<StartedStages> started =
      make_stages(run.config, run.own_specs(), *run.backend, run.start.checkpoint, run.workers(),
                  run.peers_on_host, run.ownership());
  if (Status status = agree_on_state(session, started, run.start.checkpoint); !status.ok()) {
    return status;
  }
  const bool changes = session.rank() == 0 && !run.options.dry_run;
  const Status taken = changes ? take_outputs(run) : Status();
  if (Status status = all_agree(session, taken); !status.ok()) return status;
  return std::move(started.value().stages);
}

// Machines of the deck that nobody emulates; "" if there are none.
std::string warning_of_devices(const Config& config) {
  if (config.compute.fidelity != Fidelity::real) return "";
  const std::string rows = !config.devices.empty()  ? "devices." + config.devices.front().name
                           : !config.links.empty()  ? "links." + config.links.front().name
                           : !config.sites.empty()  ? "sites." + config.sites.front().name
                           : !config.routes.empty() ? "routes"
                                                    : "";
  if (rows.empty()) return "";
  return rows +
         ": of no effect, for the run goes as fast as these machines; have them emulated by "
         "compute.fidelity = \"emulated\"";
}

// What does not keep the run from starting, but may be a mistake. Of a newcomer's data the first
// ranks have told.
void print_warnings(const PreparedRun& run, std::ostream& error) {
  if (run.options.joins) return;
  std::vector<std::string> warnings = run.data.warnings();
  if (const std::string devices = warning_of_devices(run.config); !devices.empty())
    warnings.push_back(devices);
  for (const std::string& warning : warnings) {
    error << "swarmpi: warning: " << with_place(run.config, Status::bad_input(warning)).message()
          << std::endl;
  }
  if (run.start.checkpoint) {
    warn_of_damaged(*run.start.checkpoint, "the run goes on from", error);
  }
}

// Those of all ranks that started the run, too, where this process has come later.
std::string host_list(const PreparedRun& run, const std::vector<std::string>& hosts) {
  std::string list = run.options.joins ? run.options.joins->hosts : "";
  for (const std::string& host : hosts) list = joined_words(list, host);
  return list;
}

void print_banner(const PreparedRun& run, const BannerPeers& peers) {
  Config own = run.config;
  own.compute.kernels = kernels_of(own, run.self);
  std::printf("%s\n", start_banner(own, run.specs, run.start, run.fingerprint, peers).c_str());
  std::fflush(stdout);
}

// What could not be printed (no room, closed) is said on stderr and does not change the exit
// status.
void discard_unwritten_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  std::fprintf(stderr, "swarmpi: warning: standard output could not be written\n");
  if (std::freopen("/dev/null", "w", stdout) == nullptr) std::clearerr(stdout);
}

void print_error(const MpiSession& session, const Status& status, std::ostream& error) {
  error << "swarmpi: ";
  if (session.spawned()) error << "spawned process on " << host_name() << ": ";
  error << status.message() << std::endl;
}

void report_end(const MpiSession& session, const PreparedRun& run, const Outcome& outcome,
                std::ostream& error) {
  if (!outcome.reports_outcome) return;
  const Status& status = outcome.status;
  if (!status.ok()) print_error(session, status, error);
  if (status.code() == ExitStatus::stopped) {
    // Looked for only where no thread hangs in that folder.
    const bool none = !outcome.hangs && !has_checkpoint(run.paths);
    const std::optional<Checkpoint>& begun_from = run.start.checkpoint;
    error << "swarmpi: stopped; "
          << (none && !begun_from ? "there is no checkpoint yet: start anew" : "go on")
          << " with --resume " << (none && begun_from ? begun_from->path() : run.paths.checkpoints)
          << std::endl;
  }
  // The run file may lie where a thread hangs: whoever reads it would hang as well.
  if (run.options.quiet || outcome.hangs) return;
  const Result<std::string> summary = run_file_summary(run.paths.run_file);
  if (!summary.ok()) return;
  const std::string shown = folded(summary.value(), unbroken_columns(stdout), kSummaryIndent);
  std::printf("\n%s\nrun file     %s\ncheckpoints  %s\n", shown.c_str(), run.paths.run_file.c_str(),
              run.paths.checkpoints.c_str());
}

// All that the run has written is durable by now: an error of MPI_Finalize is printed, but does not
// change the exit status.
ExitStatus end_session(MpiSession& session, const Outcome& outcome, std::ostream& error) {
  // Before MPI_Finalize, which may end this process, and which would wait for those that go on.
  discard_unwritten_output();
  if (outcome.departed || (session.spawned() && session.lost_a_rank())) MpiSession::leave();
  const Status finished = session.finish();
  if (!finished.ok()) print_error(session, finished, error);
  if (!session.lost_a_rank()) return status_of_rank(outcome.status.code(), outcome.reports_outcome);
  await_turn_to_leave(session.rank());
  return outcome.status.code();
}

// A thread that hangs may still touch what the end of this process would destroy.
ExitStatus leave(MpiSession& session, const Outcome& outcome, std::ostream& error) {
  const ExitStatus code = end_session(session, outcome, error);
  if (!outcome.hangs) return code;
  std::fflush(nullptr);
  ::_exit(static_cast<int>(code));
}

// The end of a start that has failed on any rank, which all ranks know.
ExitStatus refuse(MpiSession& session, const Status& status, std::ostream& error) {
  const bool first = session.rank() == 0;
  if (first) print_error(session, status, error);
  return leave(session, {.status = status, .reports_outcome = first, .departed = session.spawned()},
               error);
}

}  // namespace

// One rank, many ranks, a newcomer and a resumed run take the same steps and differ in values: with
// whom the session is, who sends the options, where the run starts. What fails in steps 2 to 4 on
// one rank is told to all others in the handshake, and all leave together.
ExitStatus train(const std::variant<TrainOptions, NewcomerOptions>& asked, const Launcher& launcher,
                 std::ostream& error) {
  // 1. Environment: signals, limits, and MPI unless this process is alone.
  Inbox inbox;
  SignalWatch signals(inbox, !launcher.name.empty());
  survive_file_size_limits();
  const auto* given = std::get_if<TrainOptions>(&asked);
  if (given != nullptr && launcher.first() && !launcher.alone()) {
    const std::string others = other_transports();
    if (!others.empty()) error << "swarmpi: warning: " << others << std::endl;
  }
  const Result<std::unique_ptr<MpiSession>> opened =
      given != nullptr ? open_session(launcher, starts_processes(*given))
                       : MpiSession::join(std::get<NewcomerOptions>(asked).port);
  if (!opened.ok()) {
    // A wrong launcher is found by all ranks alike.
    const bool alike = given != nullptr && opened.status().code() == ExitStatus::bad_input;
    if (!alike || launcher.speaks()) error << "swarmpi: " << opened.status().message() << std::endl;
    return opened.status().code();
  }
  MpiSession& session = *opened.value();

  // 2. Options: of the command line; a newcomer is sent its own.
  const Result<TrainOptions> options = given != nullptr ? *given : receive_options(session);

  // 3. Deck: read and checked.
  const Result<Config> deck = read_deck(options);

  // 4. Data, outputs and start point: what a process can check on its own. Nothing is written.
  Result<PreparedRun> prepared = prepare_run(options, deck, session);

  // 5. Handshake: all ranks are ready and fit together.
  const Result<std::vector<std::string>> hosts = shake_hands(session, prepared);
  if (!hosts.ok()) return refuse(session, hosts.status(), error);
  PreparedRun& run = prepared.value();
  if (session.rank() == 0) print_warnings(run, error);

  // 6. State: initial or of a checkpoint. A newcomer has none yet.
  Result<Stages> stages = make_state(session, run);
  if (!stages.ok()) {
    if (session.rank() == 0 && !run.options.joins) remove_probes(run.paths, run.shared_file);
    return refuse(session, with_place(run.config, stages.status()), error);
  }

  // 7. Run. From here on signals ask for a checkpoint and a stop.
  const bool dry_run = run.options.dry_run;
  if (session.rank() == 0 && !run.options.quiet) {
    print_banner(run,
                 banner_peers(run.config, run.view, hosts.value(), session.reports_lost_ranks()));
  }
  if (dry_run) return leave(session, {}, error);
  signals.deliver();
  const Outcome outcome =
      run_rank(run, std::move(stages).value(), session, host_list(run, hosts.value()), inbox);

  // 8. End.
  report_end(session, run, outcome, error);
  return leave(session, outcome, error);
}

}  // namespace swarmpi
