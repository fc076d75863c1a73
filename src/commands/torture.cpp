#include "commands/torture.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "commands/isolated.hpp"
#include "core/clock.hpp"
#include "core/hash.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "simulation/event_trace.hpp"
#include "torture/event_hash.hpp"
#include "torture/shrink.hpp"
#include "torture/tally.hpp"

namespace swarmpi {
namespace {

// Of one schedule, which takes milliseconds; seconds with real kernels.
constexpr unsigned kDeadlineS = 60;
constexpr std::int64_t kFailuresShrunk = 3;
constexpr std::int64_t kFailuresShown = 20;

std::uint64_t fresh_seed() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(now.count()) ^ static_cast<std::uint64_t>(getpid());
}

std::string joined(const std::vector<std::string>& names, const char* prefix) {
  std::string text;
  for (const std::string& name : names) text += prefix + name;
  return text;
}

// How a swarm fails: what check_swarm() finds, or how its process crashed; "" if it passes.
std::string fault_in(const RandomSwarm& swarm) {
  const IsolatedResult result = run_isolated([&] {
    set_deadline(kDeadlineS);
    return check_swarm(swarm).violation;
  });
  return result.crash.empty() ? result.answer : result.crash;
}

// Runs the swarm with a trace into `path`; returns how it fails, as fault_in() does.
std::string write_trace(const RandomSwarm& swarm, const std::string& path) {
  const IsolatedResult result = run_isolated([&] {
    std::FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr) return "cannot write " + path + ": " + std::strerror(errno);
    std::setvbuf(file, nullptr, _IOLBF, 1 << 16);  // what is written survives a crash
    std::fputs((swarm.text() + "\n\n").c_str(), file);
    EventTrace trace(file);
    set_deadline(kDeadlineS);
    const SwarmVerdict verdict = check_swarm(swarm, &trace);
    std::fputs(("\nfaults: " + verdict.injected + "\n").c_str(), file);
    std::fclose(file);
    return verdict.violation;
  });
  const std::string fault = result.crash.empty() ? result.answer : result.crash;
  if (std::FILE* file = std::fopen(path.c_str(), "a")) {
    std::fputs((fault + "\n").c_str(), file);
    std::fclose(file);
  }
  return fault;
}

// A fault without its numbers, which differ between failures of one kind.
std::string kind_of_fault(const std::string& fault) {
  std::string kind = fault.substr(0, fault.find("\nin part"));
  std::erase_if(kind, [](unsigned char c) { return std::isdigit(c) != 0; });
  return kind;
}

void shrink_and_trace(const RandomSwarm& swarm, const std::string& fault, std::ostream& out) {
  const std::string kind = kind_of_fault(fault);
  const RandomSwarm smallest = shrink(swarm, [&](const RandomSwarm& smaller) {
    const std::string other = fault_in(smaller);
    return !other.empty() && kind_of_fault(other) == kind;
  });
  const std::string path = fmt::format("torture-{}.txt", swarm.seed);
  out << "  the smallest schedule that still fails: " << smallest.text() << std::endl;
  out << "    " << write_trace(smallest, path) << "\n  its trace is in " << path << std::endl;
}

class Torture {
 public:
  Torture(const TortureOptions& options, const TortureRules& rules, std::uint64_t seed,
          std::ostream& out)
      : options_(options), rules_(rules), seed_(seed), out_(out) {}

  ExitStatus run() {
    const WallClock clock;
    while (tally_->schedules < options_.schedules) {
      const IsolatedResult result = run_isolated([this] { return run_until_one_fails(); });
      if (!result.crash.empty()) {
        ++tally_->schedules;
        ++tally_->failed;
        if (options_.hash) out_ << "schedule " << tally_->running << " crashed" << std::endl;
      }
      const std::string& fault = result.crash.empty() ? result.answer : result.crash;
      if (!fault.empty()) show(fault);
    }
    out_ << tally_->summary(clock.now_s());
    if (options_.hash) {
      out_ << "hash of all " << tally_->schedules << " schedules: " << hex(tally_->hash) << "\n";
    }
    if (options_.moments) out_ << "faults that took effect when a peer\n" << tally_->moments_text();
    if (options_.json) print_json();
    return tally_->failed == 0 ? ExitStatus::good : ExitStatus::no;
  }

 private:
  // Runs in a child, because a SWARMPI_CHECK that fails ends the process.
  std::string run_until_one_fails() {
    for (std::int64_t i = tally_->schedules; i < options_.schedules; ++i) {
      tally_->running = mix_bits(mix_bits(seed_) + static_cast<std::uint64_t>(i));
      set_deadline(kDeadlineS);
      EventHash hash;
      const SwarmVerdict verdict =
          check_torture(tally_->running, rules_, options_.hash ? &hash : nullptr);
      tally_->add(verdict);
      if (options_.hash) add(hash.value());
      if (!verdict.violation.empty()) return verdict.violation;
    }
    return "";
  }

  void add(std::uint64_t hash) {
    tally_->hash = mix_bits(tally_->hash ^ hash);
    out_ << "schedule " << tally_->running << " hash " << hex(hash) << std::endl;
  }

  void show(const std::string& fault) {
    if (tally_->failed > kFailuresShown) return;
    out_ << "schedule " << tally_->running << " failed: " << fault << std::endl;
    if (tally_->failed > kFailuresShrunk) return;
    const RandomSwarm swarm = draw_tortured_swarm(tally_->running, rules_);
    out_ << "  " << swarm.text() << std::endl;
    shrink_and_trace(swarm, fault, out_);
  }

  void print_json() {
    nlohmann::ordered_json figures;
    for (const auto& [name, count] : tally_->counts()) figures[name] = count;
    const char* what = "Swarms in virtual time under torture, each compared with one peer.";
    out_ << nlohmann::ordered_json{{"what", what}, {"figures", figures}}.dump() << "\n";
  }

  const TortureOptions& options_;
  const TortureRules& rules_;
  std::uint64_t seed_;
  std::ostream& out_;
  SharedValue<TortureTally> tally_;
};

ExitStatus replay(std::uint64_t seed, const TortureRules& rules, const TortureOptions& options,
                  std::ostream& out) {
  const RandomSwarm swarm = draw_tortured_swarm(seed, rules);
  out << swarm.text() << std::endl;
  const IsolatedResult result = run_isolated([&] {
    EventTrace trace(stdout);
    EventHash hash;
    Observer* observer = options.trace ? &trace : nullptr;
    if (options.hash) observer = &hash;
    set_deadline(kDeadlineS);
    const SwarmVerdict verdict = check_swarm(swarm, observer);
    std::string text = fmt::format("faults: {}; {} events, {} jobs, {} parts", verdict.injected,
                                   verdict.events, verdict.jobs, verdict.parts);
    if (options.hash) text += "; hash " + hex(hash.value());
    return text + "\n" + verdict.violation;
  });
  const std::size_t first_line = result.answer.find('\n') + 1;
  const std::string fault = result.crash.empty() ? result.answer.substr(first_line) : result.crash;
  out << result.answer.substr(0, first_line) << (fault.empty() ? "passed" : fault) << std::endl;
  if (!fault.empty()) shrink_and_trace(swarm, fault, out);
  return fault.empty() ? ExitStatus::good : ExitStatus::no;
}

}  // namespace

Result<TortureRules> torture_rules(const TortureOptions& options) {
  TortureRules rules;
  rules.real = options.real;
  for (const std::string& feature : options.with) {
    if (contains(options.without, feature)) {
      return Status::bad_input("torture: `" + feature + "` is given to both --with and --without");
    }
  }
  const auto required = [&](const char* feature) -> std::optional<bool> {
    if (contains(options.with, feature)) return true;
    if (contains(options.without, feature)) return false;
    return std::nullopt;
  };
  rules.delayed = required("delayed");
  rules.faults = {required("joins"),     required("shadows"), required("cuts"),
                  required("pipelines"), required("owners"),  required("collectives"),
                  required("outbids")};
  for (const char* pipelines : {"pipelines", "owners"}) {
    for (const char* feature : {"delayed", "shadows"}) {
      if (!contains(options.with, pipelines) || !contains(options.with, feature)) continue;
      return Status::bad_input(
          fmt::format("torture: static pipelines have no {0}: give --with {1} or --with {0}",
                      feature, pipelines));
    }
  }
  if (contains(options.with, "collectives") && contains(options.with, "owners")) {
    return Status::bad_input(
        "torture: there are no collectives --with owners: give one of the two");
  }
  if (!contains(options.with, "owners")) return rules;
  if (contains(options.without, "pipelines")) {
    return Status::bad_input(
        "torture: owners are in static pipelines: do not give --without "
        "pipelines");
  }
  rules.faults.pipelines = true;
  return rules;
}

ExitStatus run_torture(const TortureOptions& options, std::ostream& out) {
  const Result<TortureRules> rules = torture_rules(options);
  const std::uint64_t seed = options.seed.value_or(fresh_seed());
  out << "swarmpi " << version_line() << ", torture" << (options.real ? " with real kernels" : "")
      << joined(options.with, " with ") << joined(options.without, " without ");
  if (options.replay) {
    out << ", schedule " << *options.replay << std::endl;
    return replay(*options.replay, rules.value(), options, out);
  }
  out << ", " << options.schedules << " schedules, seed " << seed << std::endl;
  return Torture(options, rules.value(), seed, out).run();
}

}  // namespace swarmpi
