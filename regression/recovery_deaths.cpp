#include "regression/recovery_deaths.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "simulation/event_trace.hpp"
#include "simulation/histogram.hpp"
#include "simulation/lost_work.hpp"
#include "torture/swarm_check.hpp"

namespace swarmpi {
namespace {

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
  swarm.stop.reset();
  swarm.disks.writes_until_full.reset();
  swarm.faults.spares_a_replica = true;
  swarm.faults.all.resize(1);
  Fault& kill = swarm.faults.all.front();
  kill.more = 0;
  if (kill.victim == Fault::Victim::stage) kill.victim = Fault::Victim::actor;
  swarm.plan.swarm.recovery = lineage ? "lineage" : "redo";
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
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), what.c_str());
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
    std::printf("  %-34s", what);
    for (const Sums* sums :
         {&all.lineage.all, &all.redo.all, &all.lineage.losing, &all.redo.losing}) {
      const LostPasses& passes = sums->passes[static_cast<std::size_t>(kind)];
      std::printf(" %9.4f", mean(number_in(passes), sums->deaths));
    }
    std::printf("\n");
  };
  std::printf("%-36s %9s %9s %9s %9s\n", name, "lineage", "redo", "lineage", "redo");
  line("own", [](const LostPasses& p) { return p.own; });
  line("again, of its own", [](const LostPasses& p) { return p.own_again; });
  line("again, of those of living peers", [](const LostPasses& p) { return p.others_again; });
  line("again minus own", [](const LostPasses& p) { return p.beyond_own(); });
  line("cut short", [](const LostPasses& p) { return p.cut_short; });
  line("begun again, of what was cut short", [](const LostPasses& p) { return p.cut_again; });
}

void print_worst(const char* name, const Tally& tally) {
  std::printf("\n%s: after %lld deaths more backward passes were done again than its own;\n", name,
              static_cast<long long>(tally.more));
  std::printf("after %lld deaths passes of any kind were done again that a living peer had done\n",
              static_cast<long long>(tally.others));
  for (const Worst& worst : tally.worst) {
    std::printf("  seed %llu: %lld such passes, first: %s\n",
                static_cast<unsigned long long>(worst.seed), static_cast<long long>(worst.passes),
                worst.what.c_str());
  }
}

void print(const Deaths& all) {
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  std::printf(
      "%lld deaths in %lld schedules with one kill: %lld of leaders, %lld with delayed "
      "updates, %lld while nothing was open\n\n%s\n",
      number(all.deaths), number(all.schedules), number(all.of_leaders), number(all.delayed),
      number(all.nothing_open), kDefinitions);
  std::printf(
      "mean of a death, in microbatch-stages; to the right, of the %lld deaths with backward\n"
      "passes of its own\n\n",
      number(all.lineage.losing.deaths));
  print_means("backward passes", PassKind::backward, all);
  print_means("forward passes", PassKind::forward, all);
  print_means("validation passes", PassKind::validation, all);
  std::printf("\nbackward passes done again minus own: deaths\n%s",
              side_by_side("lineage", all.lineage.beyond, "redo", all.redo.beyond).c_str());
  std::printf("\nbackward passes done again: deaths\n%s",
              side_by_side("lineage", all.lineage.again, "redo", all.redo.again).c_str());
  print_worst("lineage", all.lineage);
  print_worst("redo", all.redo);
}

// Two who listen.
class Both final : public Observer {
 public:
  Both(Observer& first, Observer& second) : first_(first), second_(second) {}
  void happened(double now_s, PeerId peer, const Event& event) override {
    first_.happened(now_s, peer, event);
    second_.happened(now_s, peer, event);
  }
  void asked(double now_s, PeerId peer, const Action& action) override {
    first_.asked(now_s, peer, action);
    second_.asked(now_s, peer, action);
  }
  void died(double now_s, PeerId peer) override {
    first_.died(now_s, peer);
    second_.died(now_s, peer);
  }

 private:
  Observer& first_;
  Observer& second_;
};

}  // namespace

bool count_deaths(std::int64_t deaths, std::uint64_t seed) {
  std::printf("swarmpi %s, seed %llu\n", version_line().c_str(),
              static_cast<unsigned long long>(seed));
  const WallClock clock;
  Deaths all;
  for (std::uint64_t i = 0; all.deaths < deaths && all.faults < 20; ++i) {
    all.add(mix_bits(mix_bits(seed) + i));
  }
  print(all);
  std::printf("\n%.1f s\n", clock.now_s());
  return all.faults == 0 && all.lineage.others == 0;
}

bool replay_death(std::uint64_t seed, bool lineage) {
  const std::optional<RandomSwarm> swarm = draw_one_death(seed, lineage);
  if (!swarm) {
    std::printf("nobody dies\n");
    return false;
  }
  std::printf("%s\n\n", swarm->text().c_str());
  EventTrace trace(stdout);
  Run run;
  Both both(trace, run.lost);
  run_to_its_end(*swarm, both, run);
  const LostPasses& backward = run.lost.passes(PassKind::backward);
  std::printf(
      "\nkilled: %s\n%lld own backward passes, %lld of them done again, %lld of living peers\n",
      run.end.injected.c_str(), static_cast<long long>(backward.own),
      static_cast<long long>(backward.own_again), static_cast<long long>(backward.others_again));
  for (const std::string& line : run.lost.others_again()) std::printf("%s\n", line.c_str());
  if (!run.fault.empty()) std::printf("%s\n", run.fault.c_str());
  return run.fault.empty();
}

}  // namespace swarmpi
