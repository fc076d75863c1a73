// What one event costs in the protocol core: swarms of several sizes in virtual time, with compute
// that computes nothing, no referee, no observers.
//
// usage: virtual_cost [--peers N[,N...]] [--steps N] [--events N] [--elements N] [--rounds N]
//                     [--json] [--bytes]
//
// --peers     sizes to measure; 16,100,300,1000 by default. Up to 31 peers have 4 stages, more 8
// --steps     training steps of a run, beside step 0; by default as many as --events asks for
// --events    a run is cut off with the first step that is written down after so many events, not
//             counting those of the start; 200,000 by default
// --elements  of each of a stage's 12 tensors; 4096 by default
// --rounds    runs of each size, the median counts; 3 by default
// --json      one JSON object instead of the table, for record.py
// --bytes     instead of times: the bytes that the leader sends in seals, a step, and in views,
//             where a peer of the last stage dies
//
// Counted is the CPU time of the loop over VirtualWorld::step(): the core of all peers, and the
// virtual world around it (the heap of events, the links, a compute that answers at once). Making
// the peers and taking them down is not counted. An event is whatever a peer handles: a message, a
// job's end, a timer, a write's end. Each run has a process of its own; its memory is the growth of
// that process's peak.
//
// The start is what happens until step 0 is written down, step 0 included. In a large
// swarm its events cost two or three times as much as those of the steps that follow, so that the
// mean over all events falls with the length of a run: compare runs of equal length, or the columns
// of the steps. These are whole steps.
//
// A step has 8 microbatches a replica. By default a tensor is one block of the reduction, and a
// large swarm's events are mostly those of microbatches. With `--elements 8388608` (100 M
// parameters a stage) most are the reduction's, which are cheap: 3.8 M a step of 1,000 peers.

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/version.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/messages/message.hpp"
#include "regression/measure/null_world.hpp"
#include "simulation/world.hpp"
#include "transport/wire/frame.hpp"

namespace {

using namespace swarmpi;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kTensorsPerStage = 12;
constexpr std::int64_t kMicrobatchesPerReplica = 8;
constexpr std::int64_t kFewPeers = 31;
constexpr std::int64_t kFewStages = 4;
constexpr std::int64_t kManyStages = 8;

struct Options {
  std::vector<std::int64_t> peers = {16, 100, 300, 1000};
  std::int64_t steps = 1'000'000;
  std::int64_t events = 200'000;
  std::int64_t elements = 4096;
  std::int64_t rounds = 3;
  bool json = false;
  bool bytes = false;
};

std::int64_t stages_of(std::int64_t peers) { return peers <= kFewPeers ? kFewStages : kManyStages; }

RunPlan make_plan(std::int64_t peers, const Options& options) {
  RunPlan plan;
  const std::int64_t stages = stages_of(peers);
  plan.swarm.stages = stages;
  plan.swarm.peers = peers;
  plan.train.steps = options.steps;
  plan.train.microbatches = kMicrobatchesPerReplica * ((peers + stages - 1) / stages);
  plan.tokens_per_microbatch = 1;
  plan.window = std::max(2 * stages, peers);
  plan.recovers = true;
  plan.kept_bytes = std::int64_t{1} << 50;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    plan.stage_tensors.emplace_back();
    plan.stage_costs.push_back(1);
    for (std::int64_t t = 0; t < kTensorsPerStage; ++t) {
      plan.stage_tensors.back().push_back(static_cast<std::int32_t>(plan.tensors()));
      plan.tensor_names.push_back(fmt::format("tensor.{}", plan.tensors()));
      plan.tensor_elements.push_back(options.elements);
    }
  }
  return plan;
}

// ---- One run

struct Cost {
  std::int64_t events = 0;
  double cpu_s = 0;

  double event_us() const { return 1e6 * cpu_s / static_cast<double>(events); }
};

struct Run {
  Cost start;  // until step 0 is written down
  Cost rest;
  std::int64_t steps = 0;  // of the rest
  bool cut_off = false;
  double virtual_s = 0;
  double memory_mb = 0;

  Cost all() const { return {start.events + rest.events, start.cpu_s + rest.cpu_s}; }
};

double cpu_now_s() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double peak_mb() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_maxrss) / 1024;
}

/// Looks out for new steps in the journal.
class StepCount {
 public:
  explicit StepCount(const VirtualDisk& disk) : disk_(disk) {}
  /// How many there are, step 0 among them.
  std::int64_t now() {
    for (; seen_ < disk_.journal.size(); ++seen_) {
      if (std::holds_alternative<StepRow>(disk_.journal[seen_].record->row)) ++steps_;
    }
    return steps_;
  }

 private:
  const VirtualDisk& disk_;
  std::size_t seen_ = 0;
  std::int64_t steps_ = 0;
};

void run_world(VirtualWorld& world, const VirtualDisk& disk, const Options& options, Run& run) {
  StepCount steps(disk);
  const double start_s = cpu_now_s();
  while (steps.now() == 0 && world.step()) {
  }
  const double step_0_s = cpu_now_s();
  run.start = {world.events(), step_0_s - start_s};
  while (!run.cut_off && world.step()) {
    if (steps.now() == run.steps + 1) continue;
    run.steps = steps.now() - 1;
    run.cut_off = world.events() - run.start.events >= options.events;
  }
  run.rest = {world.events() - run.start.events, cpu_now_s() - step_0_s};
  run.virtual_s = world.now_s();
}

std::string fault_of(const VirtualWorld& world, const InitialMembership& membership, bool cut_off) {
  if (!world.violation().ok()) return world.violation().message();
  if (cut_off) return "";
  if (!world.all_done()) return "the swarm hangs:\n" + world.waiting_for();
  for (const PeerId id : membership.all()) {
    if (!world.peer(id).status().ok()) return world.peer(id).status().message();
  }
  return "";
}

/// A swarm without spares.
struct Swarm {
  Swarm(std::int64_t peers, const Options& options)
      : plan(make_plan(peers, options)), membership(make_membership(peers, 0)) {
    for (const PeerId id : membership.all()) {
      world.add(id, std::make_unique<Peer>(id, plan, membership, ResumeState()),
                computes.emplace_back(plan), 0, 0);
    }
  }

  RunPlan plan;
  InitialMembership membership;
  SteadyLinks links;
  SteadyCosts costs;
  SteadyDisks disks;
  VirtualDisk disk;
  std::deque<NullCompute> computes;  // one a peer: each has books of its own
  VirtualWorld world{links, costs, disks, disk};
};

std::string measure(std::int64_t peers, const Options& options, Run& run) {
  const double before_mb = peak_mb();
  Swarm swarm(peers, options);
  run_world(swarm.world, swarm.disk, options, run);
  run.memory_mb = peak_mb() - before_mb;
  return fault_of(swarm.world, swarm.membership, run.cut_off);
}

// ---- Bytes from the leader

/// What one peer sends to others in seals and views.
class SentBytes final : public Observer {
 public:
  explicit SentBytes(PeerId sender) : sender_(sender) {}

  void asked(double, PeerId peer, const Action& action) override {
    const auto* send = get_if<Send>(&action);
    if (peer != sender_ || send == nullptr || send->to == peer) return;
    constexpr std::size_t kAnyFragmentBytes = 1 << 16;
    const MessageBody& body = send->message.body;
    const bool sealed = holds_alternative<SealMessage>(body);
    if (!sealed && !holds_alternative<ViewMessage>(body)) return;
    const auto bytes =
        static_cast<std::int64_t>(Frame(pack(send->message), kAnyFragmentBytes).total_bytes());
    (sealed ? seals : views) += bytes;
    if (!sealed) numbers.insert(send->message.view);
  }

  std::int64_t seals = 0;
  std::int64_t views = 0;
  std::set<ViewNumber> numbers;  // of the views

 private:
  PeerId sender_;
};

// One line for each size, and with --json a record. Whether all went well.
bool measure_bytes(const Options& options) {
  constexpr std::int64_t kSteps = 3;
  Json figures;
  fmt::print("{:>6} {:>6} {:>16} {:>18} {:>6} {:>14}\n", "peers", "stages", "seals, B a step",
             "death: views, B", "views", "B a view");
  for (const std::int64_t peers : options.peers) {
    Swarm swarm(peers, options);
    SentBytes sent(swarm.membership.all().front());
    swarm.world.watch(sent);
    StepCount steps(swarm.disk);
    const auto run_for = [&](std::int64_t more) {
      const std::int64_t until = steps.now() + more;
      while (steps.now() < until && swarm.world.step()) {
      }
    };
    run_for(1);
    const std::int64_t seals_before = sent.seals;
    run_for(kSteps);
    const std::int64_t seals = (sent.seals - seals_before) / kSteps;
    const std::int64_t views_before = sent.views;
    sent.numbers.clear();
    swarm.world.kill(swarm.membership.all().back());
    run_for(kSteps);
    const std::string fault = fault_of(swarm.world, swarm.membership, true);
    if (!fault.empty() || sent.numbers.empty()) {
      fmt::print(stderr, "the run of {} peers failed: {}\n", peers,
                 fault.empty() ? "no view without the dead peer" : fault);
      return false;
    }
    const std::int64_t views = sent.views - views_before;
    const auto count = static_cast<std::int64_t>(sent.numbers.size());
    fmt::print("{:6} {:6} {:16} {:18} {:6} {:14}\n", peers, stages_of(peers), seals, views, count,
               views / count);
    std::fflush(stdout);
    figures[fmt::format("seals_bytes_a_step_of_{}_peers", peers)] = seals;
    figures[fmt::format("views_bytes_a_death_of_{}_peers", peers)] = views;
  }
  const Json record{{"what",
                     "What the leader sends to others in virtual time: in seals, a step, and in "
                     "views, a change of view, after a death."},
                    {"figures", figures}};
  if (options.json) fmt::print("{}\n", record.dump());
  return true;
}

// In a process of its own. Nothing if that failed.
std::optional<Run> measure_apart(std::int64_t peers, const Options& options) {
  int ends[2];
  if (pipe(ends) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    Run run;
    const std::string fault = measure(peers, options, run);
    if (!fault.empty()) fmt::print(stderr, "{}\n", fault);
    const bool told = write(ends[1], &run, sizeof run) == static_cast<ssize_t>(sizeof run);
    _exit(told && fault.empty() ? 0 : 1);
  }
  close(ends[1]);
  Run run;
  const bool heard = read(ends[0], &run, sizeof run) == static_cast<ssize_t>(sizeof run);
  close(ends[0]);
  int status = 0;
  const bool well = waitpid(child, &status, 0) == child && status == 0;
  return heard && well ? std::optional(run) : std::nullopt;
}

// ---- All runs, and the table

struct Row {
  std::int64_t peers = 0;
  Run median;
  double least_us = 0;
  double most_us = 0;
};

std::optional<Row> measure_rounds(std::int64_t peers, const Options& options) {
  std::vector<Run> runs;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    const std::optional<Run> run = measure_apart(peers, options);
    if (!run) return std::nullopt;
    runs.push_back(*run);
  }
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return a.all().cpu_s < b.all().cpu_s; });
  return Row{peers, runs[runs.size() / 2], runs.front().all().event_us(),
             runs.back().all().event_us()};
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

void print_head(const Options& options) {
  fmt::print(
      "swarmpi {}, {}\n{} tensors of {} elements a stage, {} microbatches a replica a step\n"
      "us: CPU time an event, of the median of {} rounds; least, most: of all events; +: cut off\n"
      "{:>6} {:>6} {:>9} {:>7} {:>7} {:>9} {:>7} {:>7} {:>7} {:>7} {:>6}\n",
      version_line(), cpu_model(), kTensorsPerStage, options.elements, kMicrobatchesPerReplica,
      options.rounds, "peers", "stages", "start: ev.", "us", "steps", "events", "us", "all: us",
      "least", "most", "MB");
}

void print(const Row& row) {
  const Run& run = row.median;
  fmt::print("{:6} {:6} {:10} {:>7.2f} {:6}{} {:9} {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>6.0f}\n",
             row.peers, stages_of(row.peers), run.start.events, run.start.event_us(), run.steps,
             run.cut_off ? "+" : " ", run.rest.events, run.rest.event_us(), run.all().event_us(),
             row.least_us, row.most_us, run.memory_mb);
  std::fflush(stdout);
}

Json json(const Row& row) {
  const Run& run = row.median;
  return {{"peers", row.peers},
          {"stages", stages_of(row.peers)},
          {"start_events", run.start.events},
          {"start_event_us", run.start.event_us()},
          {"steps", run.steps},
          {"step_events", run.rest.events},
          {"step_event_us", run.rest.event_us()},
          {"cut_off", run.cut_off},
          {"events", run.all().events},
          {"event_us", run.all().event_us()},
          {"least_event_us", row.least_us},
          {"most_event_us", row.most_us},
          {"virtual_s", run.virtual_s},
          {"memory_mb", run.memory_mb}};
}

void print_json(const Options& options, const std::vector<Row>& rows) {
  Json swarms = Json::array();
  for (const Row& row : rows) swarms.push_back(json(row));
  const Json record{
      {"what",
       "What one event costs in the protocol core: CPU time in virtual time, with compute that "
       "computes nothing, no referee and no observers."},
      {"figures",
       {{"stage_tensors", kTensorsPerStage},
        {"tensor_elements", options.elements},
        {"rounds", options.rounds},
        {"swarms", swarms}}}};
  fmt::print("{}\n", record.dump());
}

int measure_all(const Options& options) {
  if (!options.json) print_head(options);
  std::fflush(stdout);
  std::vector<Row> rows;
  for (const std::int64_t peers : options.peers) {
    const std::optional<Row> row = measure_rounds(peers, options);
    if (!row) {
      fmt::print(stderr, "the run of {} peers failed\n", peers);
      return 1;
    }
    rows.push_back(*row);
    if (!options.json) print(*row);
  }
  if (options.json) print_json(options, rows);
  return 0;
}

// ---- Options

// A number of at least `least`, and what follows it.
bool read_number(const char*& text, std::int64_t least, std::int64_t& value) {
  char* end = nullptr;
  value = std::strtoll(text, &end, 10);
  const bool good = end != text && value >= least;
  text = end;
  return good;
}

bool read_peers(const char* text, std::vector<std::int64_t>& peers) {
  peers.clear();
  while (true) {
    std::int64_t count = 0;
    if (!read_number(text, kFewStages, count)) return false;
    peers.push_back(count);
    if (*text == '\0') return true;
    if (*text++ != ',') return false;
  }
}

bool read_options(int count, char** arguments, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--json" || name == "--bytes") {
      (name == "--json" ? options.json : options.bytes) = true;
      continue;
    }
    if (i + 1 == count) return false;
    const char* text = arguments[++i];
    if (name == "--peers") {
      if (!read_peers(text, options.peers)) return false;
      continue;
    }
    std::int64_t* value = name == "--steps"      ? &options.steps
                          : name == "--events"   ? &options.events
                          : name == "--elements" ? &options.elements
                          : name == "--rounds"   ? &options.rounds
                                                 : nullptr;
    if (value == nullptr || !read_number(text, 1, *value) || *text != '\0') return false;
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  if (!read_options(count, arguments, options)) {
    fmt::print(stderr,
               "usage: virtual_cost [--peers N[,N...]] [--steps N] [--events N] [--elements N] "
               "[--rounds N] [--json] [--bytes]\n");
    return 2;
  }
  if (options.bytes) return measure_bytes(options) ? 0 : 1;
  return measure_all(options);
}
