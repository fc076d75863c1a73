// What recovery costs, in virtual time, with the very core that runs on a cluster.
//
// usage: recovery_cost deaths [--count N] [--seed S] [--json]
//        recovery_cost replay SEED lineage|redo
//        recovery_cost traffic DECK [--peers N] [--steps N] [--json]
//
// deaths: what is done again after a death, over N runs in each of which one peer dies at a moment
// that is drawn, with what was sent kept until the commit (lineage) and without (redo). Status 1 if
// lineage does again what a living peer had done.
// replay: one of these runs, event by event.
// traffic: what the deck's run sends and keeps where nobody dies, with recovery and without. Status
// 1 if recovery needs more messages than the tables that answer a view.
// --json: the figures once more, at the end, in a line for regression/harness/record.py.

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/deck.hpp"
#include "core/clock.hpp"
#include "core/version.hpp"
#include "hardware/device.hpp"
#include "model/job_costs.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "runtime/assembly.hpp"
#include "simulation/event_trace.hpp"
#include "simulation/histogram.hpp"
#include "simulation/lost_work.hpp"
#include "simulation/random_models.hpp"
#include "simulation/real_compute.hpp"
#include "simulation/traffic_count.hpp"
#include "torture/swarm_check.hpp"
#include "torture/swarm_run.hpp"

namespace swarmpi {
namespace {

using Json = nlohmann::ordered_json;

// What a measurement has found, for regression/harness/record.py: one line of JSON.
void print_record(const char* what, const Json& figures) {
  fmt::print("{}\n", Json{{"what", what}, {"figures", figures}}.dump());
}

// ==== What is done again after a death

namespace deaths {

constexpr std::int64_t kAllThatIsSent = std::int64_t{1} << 50;
constexpr std::size_t kWorstShown = 5;

constexpr const char* kDefinitions =
    "A pass is the forward or backward job of one microbatch in one stage; the forward pass that "
    "a\n"
    "backward job makes again for itself is part of it, and the last stage has only the one job.\n"
    "A step is open until a living peer has heard that it is committed.\n"
    "  own        passes of open steps that the dead peer had finished; each backward pass among\n"
    "             them is a contribution that is lost\n"
    "  cut short  the pass that it was at: begun once more, but not counted as done again\n"
    "  again      passes begun after the death that somebody had done, or lives and was at\n"
    "A contribution that is not made again was not needed: the stage's sum was known, or the step\n"
    "was skipped or committed. A forward pass is not needed again where its output has arrived.\n"
    "Validation has forward passes only and is counted apart.\n";

// Whose kill is the only thing that happens to it.
std::optional<RandomSwarm> draw_one_death(std::uint64_t seed, bool lineage) {
  TortureRules rules;
  rules.faults = {false, false, false};
  RandomSwarm swarm = draw_tortured_swarm(seed, rules);
  if (swarm.faults.all.empty()) return std::nullopt;
  lift_memory_limits(swarm);
  swarm.stop.reset();
  swarm.disks.writes_until_full.reset();
  swarm.faults.spares_a_replica = true;
  swarm.faults.all.resize(1);
  Fault& kill = swarm.faults.all.front();
  kill.more = 0;
  if (kill.victim == Fault::Victim::stage) kill.victim = Fault::Victim::actor;
  swarm.plan.swarm.recovery = lineage ? Recovery::lineage : Recovery::redo;
  swarm.plan.kept_bytes = lineage ? kAllThatIsSent : 0;
  return swarm;
}

struct Run {
  LostWork lost;
  SwarmEnd end;
  std::string fault;  // "" if all was as it should be
};

void run_to_its_end(const RandomSwarm& swarm, Observer& observer, Run& run) {
  VirtualDisk disk;
  run.end = swarmpi::run(swarm, {}, *make_compute_factory(swarm), disk, &observer);
  run.fault = run.end.violation;
  const std::int64_t deaths = run.lost.deaths();
  if (!run.fault.empty() || deaths == 0) return;
  if (run.end.status.code() == ExitStatus::stopped) run.fault = "it stopped";
  const LostPasses& backward = run.lost.passes(PassKind::backward);
  const std::int64_t begun_again = backward.again() + backward.cut_again;
  if (deaths != 1 || begun_again != run.end.deaths.front().repeated) {
    run.fault = "the referee counts otherwise";
  }
}

// ---- What many deaths come to

struct Worst {
  std::int64_t passes = 0;  // of those who live, done again
  std::uint64_t seed = 0;
  std::string what;
};

// Of some deaths.
struct Sums {
  std::int64_t deaths = 0;
  std::array<LostPasses, kPassKinds> passes;

  void add(const LostWork& lost);
};

void Sums::add(const LostWork& lost) {
  ++deaths;
  for (std::size_t kind = 0; kind < kPassKinds; ++kind) {
    const LostPasses& own = lost.passes(static_cast<PassKind>(kind));
    passes[kind].own += own.own;
    passes[kind].cut_short += own.cut_short;
    passes[kind].own_again += own.own_again;
    passes[kind].cut_again += own.cut_again;
    passes[kind].others_again += own.others_again;
  }
}

struct Tally {
  Histogram again, beyond;
  Sums all, losing;         // losing: those with own backward passes
  std::int64_t more = 0;    // deaths after which more backward passes were done again than its own
  std::int64_t others = 0;  // deaths after which passes that a living peer had done were done again
  std::vector<Worst> worst;

  void add(std::uint64_t seed, const Run& run);
};

void Tally::add(std::uint64_t seed, const Run& run) {
  all.add(run.lost);
  const LostPasses& backward = run.lost.passes(PassKind::backward);
  if (backward.own > 0) losing.add(run.lost);
  again.add(backward.again());
  beyond.add(backward.beyond_own());
  more += backward.beyond_own() > 0 ? 1 : 0;
  const auto others_begun_again = static_cast<std::int64_t>(run.lost.others_again().size());
  if (others_begun_again == 0) return;
  ++others;
  worst.push_back({others_begun_again, seed, run.lost.others_again().front()});
  std::stable_sort(worst.begin(), worst.end(),
                   [](const Worst& a, const Worst& b) { return a.passes > b.passes; });
  if (worst.size() > kWorstShown) worst.resize(kWorstShown);
}

struct Deaths {
  std::int64_t schedules = 0, deaths = 0, of_leaders = 0, delayed = 0, nothing_open = 0;
  std::int64_t faults = 0;
  Tally lineage, redo;

  void add(std::uint64_t seed);
  void fault(std::uint64_t seed, const std::string& what);
};

void Deaths::fault(std::uint64_t seed, const std::string& what) {
  ++faults;
  fmt::print("seed {}: {}\n", seed, what);
}

void Deaths::add(std::uint64_t seed) {
  const std::optional<RandomSwarm> swarm = draw_one_death(seed, true);
  if (!swarm) return;
  ++schedules;
  Run kept;
  run_to_its_end(*swarm, kept.lost, kept);
  if (!kept.fault.empty()) return fault(seed, "lineage: " + kept.fault);
  if (kept.lost.deaths() == 0) return;
  Run redone;
  run_to_its_end(*draw_one_death(seed, false), redone.lost, redone);
  if (!redone.fault.empty()) return fault(seed, "redo: " + redone.fault);
  const bool alike =
      kept.lost.dead() == redone.lost.dead() && kept.lost.died_at_s() == redone.lost.died_at_s() &&
      kept.lost.passes(PassKind::backward).own == redone.lost.passes(PassKind::backward).own;
  if (!alike) return fault(seed, "lineage and redo do not begin alike");
  // Of a run that diverges the last rows are a matter of time.
  const bool complete = kept.end.status.ok() && redone.end.status.ok();
  const std::string unequal =
      complete ? difference(kept.end.run_record, redone.end.run_record, true) : "";
  if (!unequal.empty()) return fault(seed, "lineage and redo learn otherwise: " + unequal);
  ++deaths;
  of_leaders += kept.end.deaths.front().led ? 1 : 0;
  delayed += swarm->plan.delay() > 1 ? 1 : 0;
  nothing_open += kept.lost.anything_was_open() ? 0 : 1;
  lineage.add(seed, kept);
  redo.add(seed, redone);
}

// ---- Text

double mean(std::int64_t sum, std::int64_t of) {
  return static_cast<double>(sum) / static_cast<double>(std::max<std::int64_t>(of, 1));
}

void print_means(const char* name, PassKind kind, const Deaths& all) {
  const auto line = [&](const char* what, const auto& number_in) {
    fmt::print("  {:34}", what);
    for (const Sums* sums :
         {&all.lineage.all, &all.redo.all, &all.lineage.losing, &all.redo.losing}) {
      const LostPasses& passes = sums->passes[static_cast<std::size_t>(kind)];
      fmt::print(" {:>9.4f}", mean(number_in(passes), sums->deaths));
    }
    fmt::print("\n");
  };
  fmt::print("{:36} {:>9} {:>9} {:>9} {:>9}\n", name, "lineage", "redo", "lineage", "redo");
  line("own", [](const LostPasses& p) { return p.own; });
  line("again, of its own", [](const LostPasses& p) { return p.own_again; });
  line("again, of those of living peers", [](const LostPasses& p) { return p.others_again; });
  line("again minus own", [](const LostPasses& p) { return p.beyond_own(); });
  line("cut short", [](const LostPasses& p) { return p.cut_short; });
  line("begun again, of what was cut short", [](const LostPasses& p) { return p.cut_again; });
}

void print_worst(const char* name, const Tally& tally) {
  fmt::print("\n{}: after {} deaths more backward passes were done again than its own;\n", name,
             tally.more);
  fmt::print("after {} deaths passes of any kind were done again that a living peer had done\n",
             tally.others);
  for (const Worst& worst : tally.worst) {
    fmt::print("  seed {}: {} such passes, first: {}\n", worst.seed, worst.passes, worst.what);
  }
}

void print(const Deaths& all) {
  fmt::print(
      "{} deaths in {} schedules with one kill: {} of leaders, {} with delayed updates, {} while "
      "nothing was open\n\n{}\n",
      all.deaths, all.schedules, all.of_leaders, all.delayed, all.nothing_open, kDefinitions);
  fmt::print(
      "mean of a death, in microbatch-stages; to the right, of the {} deaths with backward\n"
      "passes of its own\n\n",
      all.lineage.losing.deaths);
  print_means("backward passes", PassKind::backward, all);
  print_means("forward passes", PassKind::forward, all);
  print_means("validation passes", PassKind::validation, all);
  fmt::print("\nbackward passes done again minus own: deaths\n{}",
             side_by_side("lineage", all.lineage.beyond, "redo", all.redo.beyond));
  fmt::print("\nbackward passes done again: deaths\n{}",
             side_by_side("lineage", all.lineage.again, "redo", all.redo.again));
  print_worst("lineage", all.lineage);
  print_worst("redo", all.redo);
}

void print_figures(const Deaths& all) {
  const auto backward = static_cast<std::size_t>(PassKind::backward);
  const Sums& lineage = all.lineage.all;
  const Sums& redo = all.redo.all;
  const auto again = [&](const Sums& sums) {
    const LostPasses& passes = sums.passes[backward];
    return mean(passes.own_again + passes.others_again, sums.deaths);
  };
  const Json figures{
      {"deaths", all.deaths},
      {"deaths_of_leaders", all.of_leaders},
      {"own_backward_passes_per_death", mean(lineage.passes[backward].own, lineage.deaths)},
      {"lineage_backward_passes_again_per_death", again(lineage)},
      {"redo_backward_passes_again_per_death", again(redo)},
      {"lineage_deaths_with_more_again_than_own", all.lineage.more},
      {"redo_deaths_with_more_again_than_own", all.redo.more},
      {"lineage_deaths_with_living_peers_passes_again", all.lineage.others},
      {"redo_deaths_with_living_peers_passes_again", all.redo.others}};
  print_record("The work that is done again after a death, in passes of one stage.", figures);
}

// Prints what many deaths cost, each in a run of its own. False if a run went wrong, or with
// lineage something was done again that a living peer had done.
bool count_deaths(std::int64_t deaths, std::uint64_t seed, bool json) {
  fmt::print("swarmpi {}, seed {}\n", version_line(), seed);
  const WallClock clock;
  Deaths all;
  for (std::uint64_t i = 0; all.deaths < deaths && all.faults < 20; ++i) {
    all.add(mix_bits(mix_bits(seed) + i));
  }
  print(all);
  fmt::print("\n{:.1f} s\n", clock.now_s());
  if (json) print_figures(all);
  return all.faults == 0 && all.lineage.others == 0;
}

// Prints the run of this seed, event by event.
bool replay_death(std::uint64_t seed, bool lineage) {
  const std::optional<RandomSwarm> swarm = draw_one_death(seed, lineage);
  if (!swarm) {
    fmt::print("nobody dies\n");
    return false;
  }
  fmt::print("{}\n\n", swarm->text());
  EventTrace trace(stdout);
  Run run;
  Observers both;
  both.add(trace);
  both.add(run.lost);
  run_to_its_end(*swarm, both, run);
  const LostPasses& backward = run.lost.passes(PassKind::backward);
  fmt::print("\nkilled: {}\n{} own backward passes, {} of them done again, {} of living peers\n",
             run.end.injected, backward.own, backward.own_again, backward.others_again);
  for (const std::string& line : run.lost.others_again()) fmt::print("{}\n", line);
  if (!run.fault.empty()) fmt::print("{}\n", run.fault);
  return run.fault.empty();
}

}  // namespace deaths

// ==== What is sent and kept where nobody dies

namespace traffic {

// Time decides only how many heartbeats there are: that of one core, and of shared memory.
constexpr double kFlopsPerS = 20e9;
constexpr double kOtherJobS = 1e-4;
constexpr double kLinkS = 1e-5;
constexpr double kLinkBytesPerS = 1e10;

class SteadyLinks final : public LinkModel {
 public:
  Delivery deliver(PeerId, PeerId, const Message& message, double) override {
    return {link_s(kLinkS, kLinkBytesPerS, payload_bytes(message)), 1};
  }
};

class CountedFlops final : public CostModel {
 public:
  CountedFlops(const Config& config, const std::vector<StageSpec>& specs) : costs_(config, specs) {}
  double seconds(PeerId, const Job& job) override {
    const double seconds = costs_.seconds({"one core", kFlopsPerS / 1e9, 0}, job, BackwardResult{});
    return seconds > 0 ? seconds : kOtherJobS;
  }

 private:
  const JobCosts costs_;
};

struct Run {
  SwarmSetting setting;
  TrafficCount traffic{setting.plan};
  SwarmEnd end;
};

// Its kernels are real: the sums that are sent are as long as their numbers make them.
void run_deck(const Config& config, std::int64_t peers, bool recovers, Run& run) {
  const std::vector<StageSpec> specs = partition_model(config);
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
  fmt::print("  {:38} {:>9} {:>11} {:>11} {:>10} {:>11}\n", "a microbatch", "messages", "bytes",
             "payload", "boundaries", "to itself");
  for (const auto& [message_class, name] : kRows) {
    const Traffic& row = traffic.between(message_class);
    fmt::print("  {:38} {:>9.3f} {:>11.1f} {:>11.1f} {:>9.3f}% {:>9.1f} B\n", name,
               per(row.messages, microbatches), per(row.bytes, microbatches),
               per(row.payload_bytes, microbatches),
               100 * static_cast<double>(row.bytes) / boundary,
               per(traffic.within(message_class).bytes, microbatches));
  }
}

void print_kept(const Run& run, std::int64_t boundary_bytes) {
  const TrafficCount& traffic = run.traffic;
  const auto line = [&](const std::string& who, std::int64_t bytes) {
    fmt::print("  {} at most {} bytes: {:.1f} boundaries\n", who, bytes,
               per(bytes, boundary_bytes));
  };
  for (const auto& [peer, bytes] : traffic.most_kept_bytes()) {
    line(fmt::format("peer {} keeps", peer.value), bytes);
  }
  if (traffic.most_kept_bytes().empty()) return;
  line("all together keep", traffic.most_kept_together_bytes());
  const std::int64_t open = run.setting.plan.train.microbatches * run.setting.plan.delay();
  fmt::print("  for each of the {} microbatches of the open steps {:.0f} bytes\n", open,
             per(traffic.most_kept_together_bytes(), open));
}

void print(const char* name, const Run& run, std::int64_t microbatches,
           std::int64_t boundary_bytes) {
  fmt::print("\n{}: {:.3f} virtual seconds, {:.2f} ms a microbatch\n", name, run.end.seconds,
             1e3 * run.end.seconds / static_cast<double>(microbatches));
  print_table(run.traffic, microbatches);
  print_kept(run, boundary_bytes);
}

void print_figures(const Run& run, double reports_of_boundaries, std::int64_t microbatches) {
  std::int64_t messages = 0;
  for (const auto& [message_class, name] : kRows)
    messages += run.traffic.between(message_class).messages;
  const std::int64_t open = run.setting.plan.train.microbatches * run.setting.plan.delay();
  const std::int64_t kept_bytes = run.traffic.most_kept_together_bytes();
  const Json figures{{"reports_percent_of_boundary_bytes", 100 * reports_of_boundaries},
                     {"messages_per_microbatch", per(messages, microbatches)},
                     {"reports_per_microbatch",
                      per(run.traffic.between(MessageClass::report).messages, microbatches)},
                     {"most_kept_together_bytes", kept_bytes},
                     {"kept_per_open_microbatch_bytes", per(kept_bytes, open)}};
  print_record("What recovery (lineage) sends and keeps where nobody dies.", figures);
}

// Prints what the deck's run sends and keeps, with recovery and without. Returns the exit status.
int count_traffic(const std::string& deck, std::int64_t peers, std::int64_t steps, bool json) {
  Result<Config> loaded = load_deck(deck, {});
  if (!loaded.ok()) {
    fmt::print(stderr, "{}\n", loaded.status().message());
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
    fmt::print("{}\n", run->end.violation);
    return 1;
  }
  const std::int64_t microbatches = (steps + 1) * config.train.microbatches;  // with step 0
  const std::int64_t boundary_bytes = swarmpi::boundary_bytes(config).both() / 2;
  fmt::print(
      "swarmpi {}\n{}: {} peers, {} stages, {} steps of {} microbatches, step 0 beside them; a "
      "boundary is {} bytes\n",
      version_line(), deck, peers, config.swarm.stages, steps, config.train.microbatches,
      boundary_bytes);
  fmt::print("Messages between peers as the wire carries them: prefix, header, payload.\n");
  print("recovery off", off, microbatches, boundary_bytes);
  print("recovery on (lineage)", on, microbatches, boundary_bytes);
  const double reports = static_cast<double>(on.traffic.between(MessageClass::report).bytes +
                                             on.traffic.within(MessageClass::report).bytes);
  const double boundaries = static_cast<double>(on.traffic.between(MessageClass::boundary).bytes);
  fmt::print("\nreports, those to itself included: {:.3f} % of the boundaries\n",
             100 * reports / boundaries);
  const bool same = off.traffic.same_except_upkeep(on.traffic);
  fmt::print(
      "with and without recovery the same messages, but for signs of life and the rest: {}\n{:.1f} "
      "s\n",
      same ? "yes" : "no", clock.now_s());
  if (json) print_figures(on, reports / boundaries, microbatches);
  return same ? 0 : 1;
}

}  // namespace traffic

// ==== The command line

bool read_number(const char* text, std::uint64_t& value) {
  char* end = nullptr;
  value = std::strtoull(text, &end, 0);
  return *text != '\0' && *end == '\0';
}

// Pairs of a name and a number.
bool read_options(int count, char** arguments, const char* name1, std::uint64_t& value1,
                  const char* name2, std::uint64_t& value2) {
  for (int i = 0; i < count; i += 2) {
    const bool first = std::strcmp(arguments[i], name1) == 0;
    if (!first && std::strcmp(arguments[i], name2) != 0) return false;
    if (i + 1 == count || !read_number(arguments[i + 1], first ? value1 : value2)) return false;
  }
  return true;
}

int usage() {
  fmt::print(stderr,
             "usage: recovery_cost deaths [--count N] [--seed S] [--json]\n"
             "       recovery_cost replay SEED lineage|redo\n"
             "       recovery_cost traffic DECK [--peers N] [--steps N] [--json]\n");
  return 2;
}

int measure(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  const bool json = count > 2 && std::strcmp(arguments[count - 1], "--json") == 0;
  if (json) --count;
  if (what == "deaths") {
    std::uint64_t number = 10'000, seed = 1;
    if (!read_options(count - 2, arguments + 2, "--count", number, "--seed", seed)) return usage();
    return deaths::count_deaths(static_cast<std::int64_t>(number), seed, json) ? 0 : 1;
  }
  if (what == "replay" && count == 4) {
    std::uint64_t seed = 0;
    const auto recovery = value_named<Recovery>(arguments[3]);
    if (!read_number(arguments[2], seed) || !recovery || *recovery == Recovery::off) return usage();
    return deaths::replay_death(seed, *recovery == Recovery::lineage) ? 0 : 1;
  }
  if (what == "traffic" && count > 2) {
    std::uint64_t peers = 4, steps = 50;
    if (!read_options(count - 3, arguments + 3, "--peers", peers, "--steps", steps)) return usage();
    return traffic::count_traffic(arguments[2], static_cast<std::int64_t>(peers),
                                  static_cast<std::int64_t>(steps), json);
  }
  return usage();
}

}  // namespace
}  // namespace swarmpi

int main(int count, char** arguments) { return swarmpi::measure(count, arguments); }
