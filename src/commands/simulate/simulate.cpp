#include "commands/simulate/simulate.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <utility>

#include "commands/simulate/simulated_swarm.hpp"
#include "commands/train/banner.hpp"
#include "commands/train/preemption.hpp"
#include "config/deck.hpp"
#include "config/rules.hpp"
#include "core/clock.hpp"
#include "core/huge_pages.hpp"
#include "core/machine.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "hardware/device.hpp"
#include "io/files.hpp"
#include "report/simulation_progress.hpp"
#include "report/summary.hpp"
#include "report/terminal.hpp"
#include "runtime/signals.hpp"

namespace swarmpi {
namespace {

volatile std::sig_atomic_t interrupted = 0;
double interrupted_s = 0;  // of the handlers alone

// The first ends the run with what there is, and a later one the process.
void interrupt(int signal) {
  const double now_s = HostClock().now_s();
  if (interrupted == 0) interrupted_s = now_s;
  interrupted = 1;
  if (now_s - interrupted_s < kSameRequestS) return;
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// INT, TERM, and the notices of batch systems.
class Interrupts {
 public:
  Interrupts() {
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = interrupt;
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
  }
  ~Interrupts() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};
  std::array<struct sigaction, kSignals.size()> before_{};
};

// ---- Before anything is written

Status check_devices(const Config& config, const std::vector<TraceEvent>& faults) {
  const auto needs_device = [&](std::int64_t peer) {
    if (device_of(config, PeerId(static_cast<std::int32_t>(peer)))) return Status();
    return Status::bad_input(
        fmt::format("peers: peer {} has no device: a simulated peer needs one, as a row of "
                    "[[peers]] that names a table [devices.NAME]",
                    peer));
  };
  for (std::int64_t peer = 0; peer < config.swarm.peers; ++peer) {
    if (Status status = needs_device(peer); !status.ok()) return status;
  }
  for (const TraceEvent& event : faults) {
    if (event.event != FaultEvent::join) continue;
    if (Status status = needs_device(event.peer); !status.ok()) return status;
  }
  return {};
}

Status check_output(const std::string& run_file) {
  constexpr std::int64_t kTablesBytes = 1 << 20;
  std::error_code error;
  for (const std::string& path : {run_file, journal_folder(run_file)}) {
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) continue;
    return Status::bad_input(fmt::format("output.run: {} exists: choose another --out", path));
  }
  const Status writable = prove_writable(folder_of(run_file), kTablesBytes);
  return writable.ok() ? Status() : Status::bad_input("output.run: " + writable.message());
}

struct Prepared {
  Config config;
  std::vector<TraceEvent> faults;
  std::string run_file;
};

Result<Prepared> checked(const SimulateOptions& options, Config config) {
  if (Status status = check_ranks(config, config.swarm.peers); !status.ok()) return status;
  Result<std::vector<TraceEvent>> faults = preemption_of_all(config, config.swarm.peers);
  if (!faults.ok()) return faults.status();
  if (Status status = check_devices(config, faults.value()); !status.ok()) return status;
  const std::string run_file = options.out.value_or(config.output.run);
  if (Status status = check_output(run_file); !status.ok()) return status;
  return Prepared{std::move(config), std::move(faults).value(), run_file};
}

Result<Prepared> prepare(const SimulateOptions& options) {
  Result<Config> deck = load_deck(options.deck, options.overrides);
  if (!deck.ok()) return deck.status();
  deck.value().compute.fidelity = Fidelity::simulated;
  Result<Prepared> prepared = checked(options, deck.value());
  if (prepared.ok()) return prepared;
  return with_place(deck.value(), prepared.status());
}

JournalBegin begin_of(const Config& config) {
  JournalBegin begin;
  begin.first_term = 1;
  begin.delay = config.train.delay();
  begin.origin.deck = resolved_deck(config);
  begin.origin.seed = std::to_string(config.train.seed);
  begin.origin.version = version_line();
  begin.origin.build = build_line();
  begin.origin.fingerprint = "none";
  begin.origin.hosts = host_name();
  return begin;
}

/// About what the state of a swarm of so many peers takes.
std::int64_t state_bytes(std::int64_t peers) {
  constexpr std::int64_t kAtLeast = 64 << 20, kOfEach = 64 << 10;
  constexpr std::int64_t kOfEachTwo = 56;  // replicas know each other's chunks
  return kAtLeast + peers * (kOfEach + peers * kOfEachTwo);
}

// ---- What is told

std::string start_text(const Config& config, const SimulatedSwarm& swarm) {
  return fmt::format(
      "swarmpi {}\nsimulates {} peers, {} of {} parameters; {}; {} steps of {} microbatches\n",
      version_line(), config.swarm.peers, counted(config.swarm.stages, "stage"),
      readable_count(static_cast<double>(parameter_count(config))),
      serving_text(swarm.first_view()), config.train.steps, config.train.microbatches);
}

std::string cost_text(const SimulatedEnd& end, double real_s) {
  const auto events = static_cast<double>(end.events);
  std::string text =
      fmt::format("simulated    {} in {:.1f} s\n", duration_text(end.simulated_s), real_s);
  text += fmt::format("events       {}, {} a second, {:.2f} us each\n", end.events,
                      readable_count(events / std::max(real_s, 1e-9)),
                      1e6 * real_s / std::max(events, 1.0));
  text += fmt::format(
      "sent         {} a peer\n",
      readable_bytes(static_cast<double>(end.sent_bytes) / static_cast<double>(end.peers)));
  return text + fmt::format("memory       {} at most\n",
                            readable_bytes(static_cast<double>(peak_memory_bytes())));
}

}  // namespace

ExitStatus run_simulate(const SimulateOptions& options, std::ostream& out, std::ostream& error) {
  Result<Prepared> prepared = prepare(options);
  if (!prepared.ok()) {
    error << "swarmpi: " << prepared.status().message() << std::endl;
    return prepared.status().code();
  }
  const WallClock clock;
  const Interrupts interrupts;
  const Config& config = prepared.value().config;
  prefer_huge_pages(state_bytes(config.swarm.peers));
  RunJournal journal(prepared.value().run_file, begin_of(config), config.train.steps);
  SimulatedSwarm swarm(config, std::move(prepared.value().faults), journal, options.check);
  SimulationProgress progress(config, out, options.quiet);
  swarm.watch(progress);
  if (!options.quiet) out << start_text(config, swarm) << std::endl;
  const SimulatedEnd end = swarm.run([&] { return interrupted != 0; });
  const double real_s = clock.now_s();
  const Status published = journal.publish(end.complete, end.violation);
  Status status = end.violation.empty() ? end.status : Status::failed(end.violation);
  if (status.ok()) status = published;
  if (!status.ok()) error << "swarmpi: " << status.message() << std::endl;
  if (options.quiet || !published.ok()) return status.code();
  const Result<std::string> summary = run_file_summary(prepared.value().run_file);
  if (summary.ok()) out << "\n" << summary.value();
  out << cost_text(end, real_s) << "run file     " << prepared.value().run_file << std::endl;
  return status.code();
}

}  // namespace swarmpi
