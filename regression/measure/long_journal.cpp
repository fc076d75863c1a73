// What the storage of a leader takes as its run grows: the rows of a run of N steps on P peers go
// through RunStorage as a leader gives them, on files, with checkpoints; now and then the leader is
// succeeded by another, as after a death. For each stretch of the run: the process's memory, the
// longest publishing and checkpoint, and how soon the successor led.
//
// usage: long_journal [FOLDER] [--steps N] [--peers P] [--stretches S] [--step-s T] [--most-mb M]
//                     [--json]
// FOLDER must not exist; without it there is a temporary one. --step-s is what a step takes in the
// run's time, by which rows are thinned. Exit status 1 where the memory was above M.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/term_port.hpp"
#include "runtime/run_storage.hpp"

namespace swarmpi {
namespace {

struct Options {
  std::string folder;
  std::int64_t steps = 200'000, peers = 8, stretches = 10;
  double step_s = 0.002, most_mb = 1e9;
  bool json = false;
};

/// As the leader's process has them.
class Leader {
 public:
  Leader(const Options& options, std::int64_t self, std::int64_t from_step)
      : storage_(plan(options, self, from_step), stages_, clock_, inbox_) {}

  template <class Answer>
  Answer next() {
    while (true) {
      std::optional<Event> event = inbox_.take();
      if (!event) {
        ::usleep(100);
        continue;
      }
      if (const auto* failed = get_if<StorageFailed>(&*event)) {
        fmt::print(stderr, "long_journal: {}\n", failed->status.message());
        std::exit(1);
      }
      if (auto* answer = get_if<Answer>(&*event)) return std::move(*answer);
    }
  }
  void store(Record row) { storage_.take(StoreRecord{++number_, std::move(row)}); }
  void await_rows() {
    while (next<RecordDurable>().number < number_) continue;
  }
  RunStorage& storage() { return storage_; }

 private:
  static StoragePlan plan(const Options& options, std::int64_t self, std::int64_t from_step) {
    StoragePlan plan;
    plan.run_file = options.folder + "/RUN.h5";
    plan.checkpoints = options.folder + "/checkpoints";
    plan.publish_every_s = 1;
    plan.tensors = 1;
    plan.self = PeerId(static_cast<std::int32_t>(self));
    plan.begin.from_step = from_step;
    plan.begin.origin.fingerprint = "0";
    return plan;
  }

  WallClock clock_;
  Inbox inbox_;
  PayloadPool payloads_;
  JobExecutor stages_{PeerId(0), Config(), nullptr, payloads_, {}};
  std::int64_t number_ = 0;
  RunStorage storage_;
};

double memory_mb() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

void give_step(Leader& leader, const Options& options, std::int64_t step) {
  const double time_s = options.step_s * static_cast<double>(step);
  StepRow row;
  row.step = step;
  row.loss = 5.0 / static_cast<double>(step + 1);
  row.time_s = time_s;
  row.state_hash = static_cast<std::uint64_t>(step) * 0x9e3779b97f4a7c15u;
  leader.store(row);
  for (std::int64_t peer = 0; peer < options.peers; ++peer) leader.store(PeerRow{step, peer, 0});
  leader.store(ThroughputRow{time_s, 1e5, 0.9, 1});
  leader.store(EventRow{time_s, step, EventKind::commit, 0, -1, 1e-3, ""});
}

/// A part of a stage's file, whose content does not matter here.
StoredFile make_part(const Options& options, std::int64_t step) {
  static std::vector<float> values(6, 1.5F);
  const TensorState tensor{"tensor", 3, 2, {values.data()}, values.data(), values.data()};
  const std::string folder = checkpoint_path(options.folder + "/checkpoints", step);
  static const auto backend = kernels::make_reference_backend({});
  return write_stage_file(folder, 0, 1, 0, {tensor}, *backend).value();
}

struct Figures {
  std::int64_t steps = 0;
  double leads_s = 0, memory_mb = 0, first_checkpoint_s = 0, checkpoint_s = 0, rows_per_s = 0,
         run_file_mb = 0;
  std::int64_t published = 0;
};

double make_checkpoint(Leader& leader, const Options& options, std::int64_t step,
                       const Clock& clock) {
  const double asked_s = clock.now_s();
  StoreManifest manifest;
  manifest.state.step = step;
  manifest.state.exponents = {Exponents(1, 3)};
  manifest.files = {make_part(options, step)};
  leader.storage().take(std::move(manifest));
  leader.next<CheckpointDurable>();
  return clock.now_s() - asked_s;
}

Figures run_stretch(const Options& options, std::int64_t number, std::int64_t first,
                    std::int64_t last) {
  const WallClock clock;
  const auto leader = std::make_unique<Leader>(options, number, -1);
  Figures figures;
  const double before_s = clock.now_s();
  leader->storage().take(CreateTerm{Term(number)});
  leader->next<TermCreated>();
  figures.leads_s = clock.now_s() - before_s;
  const std::string run_file = options.folder + "/RUN.h5";
  std::filesystem::file_time_type published{};
  constexpr std::int64_t kBurst = 100;  // steps whose rows become durable together
  const double begun_s = clock.now_s();
  for (std::int64_t step = first; step <= last; ++step) {
    give_step(*leader, options, step);
    if (step % kBurst != 0 && step != last) continue;
    leader->await_rows();
    figures.memory_mb = std::max(figures.memory_mb, memory_mb());
    std::error_code none_yet;
    const auto time = std::filesystem::last_write_time(run_file, none_yet);
    if (!none_yet && time != published) ++figures.published;
    published = time;
  }
  figures.rows_per_s =
      static_cast<double>((last - first + 1) * (options.peers + 3)) / (clock.now_s() - begun_s);
  // The first one of a leader looks at all rows, the second at those that have come since.
  figures.first_checkpoint_s = make_checkpoint(*leader, options, last - 1, clock);
  figures.checkpoint_s = make_checkpoint(*leader, options, last, clock);
  figures.memory_mb = std::max(figures.memory_mb, memory_mb());
  figures.steps = last;
  std::error_code none;
  const auto bytes = std::filesystem::file_size(run_file, none);
  figures.run_file_mb = none ? 0 : static_cast<double>(bytes) / 1e6;
  return figures;
}

int run(const Options& options) {
  std::string samples;
  fmt::print("{:>10} {:>10} {:>12} {:>10} {:>14} {:>11} {:>10} {:>12}\n", "steps", "leads ms",
             "memory MB", "first ms", "checkpoint ms", "rows/s", "published", "run file MB");
  Figures first, last;
  double most_mb = 0;
  for (std::int64_t i = 0; i < options.stretches; ++i) {
    const std::int64_t from = options.steps * i / options.stretches;
    const std::int64_t to = options.steps * (i + 1) / options.stretches - 1;
    last = run_stretch(options, i + 1, from, to);
    if (i == 0) first = last;
    most_mb = std::max(most_mb, last.memory_mb);
    fmt::print("{:>10} {:>10.1f} {:>12.1f} {:>10.1f} {:>14.1f} {:>11.0f} {:>10} {:>12.1f}\n",
               last.steps + 1, last.leads_s * 1e3, last.memory_mb, last.first_checkpoint_s * 1e3,
               last.checkpoint_s * 1e3, last.rows_per_s, last.published, last.run_file_mb);
    std::fflush(stdout);
    samples += fmt::format(
        "{}{{\"steps\": {}, \"leads_ms\": {:.2f}, \"memory_mb\": {:.1f}, "
        "\"first_checkpoint_ms\": {:.1f}, \"checkpoint_ms\": {:.1f}, "
        "\"published\": {}, \"run_file_mb\": {:.1f}}}",
        i == 0 ? "" : ", ", last.steps + 1, last.leads_s * 1e3, last.memory_mb,
        last.first_checkpoint_s * 1e3, last.checkpoint_s * 1e3, last.published, last.run_file_mb);
  }
  // The last publishing, of all rows.
  const WallClock clock;
  Leader end(options, options.stretches + 1, -1);
  end.storage().take(CreateTerm{Term(options.stretches + 1)});
  end.next<TermCreated>();
  const double asked_s = clock.now_s();
  end.storage().take(StoreEnd{ExitStatus::good, ""});
  end.next<EndDurable>();
  const double end_s = clock.now_s() - asked_s;
  fmt::print("merging all rows and the last publishing: {:.2f} s\n", end_s);
  if (options.json) {
    fmt::print(
        "{{\"what\": \"What storage takes of a leader as its run grows.\", \"figures\": "
        "{{\"steps\": {}, \"peers\": {}, \"first_leads_ms\": {:.2f}, \"last_leads_ms\": "
        "{:.2f}, \"first_memory_mb\": {:.1f}, \"last_memory_mb\": {:.1f}, "
        "\"last_publishing_s\": {:.2f}}}, \"samples\": [{}]}}\n",
        options.steps, options.peers, first.leads_s * 1e3, last.leads_s * 1e3, first.memory_mb,
        last.memory_mb, end_s, samples);
  }
  return most_mb <= options.most_mb ? 0 : 1;
}

}  // namespace
}  // namespace swarmpi

int main(int argc, char** argv) {
  swarmpi::Options options;
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* name) { return std::strcmp(argv[i], name) == 0; };
    const bool more = i + 1 < argc;
    if (is("--json")) {
      options.json = true;
    } else if (is("--steps") && more) {
      options.steps = std::atoll(argv[++i]);
    } else if (is("--peers") && more) {
      options.peers = std::atoll(argv[++i]);
    } else if (is("--stretches") && more) {
      options.stretches = std::atoll(argv[++i]);
    } else if (is("--step-s") && more) {
      options.step_s = std::atof(argv[++i]);
    } else if (is("--most-mb") && more) {
      options.most_mb = std::atof(argv[++i]);
    } else {
      options.folder = argv[i];
    }
  }
  if (!options.folder.empty() && std::filesystem::exists(options.folder)) {
    fmt::print(stderr, "long_journal: {} exists\n", options.folder);
    return 2;
  }
  if (!options.folder.empty()) return swarmpi::run(options);
  std::string folder = std::filesystem::temp_directory_path().string() + "/long-journal-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return 2;
  options.folder = folder + "/run";
  const int status = swarmpi::run(options);
  std::filesystem::remove_all(folder);
  return status;
}
