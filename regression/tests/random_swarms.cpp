// Thousands of swarms drawn from seeds, in virtual time: whatever the stages, peers, speeds, links
// and the order of things, every row must be that of one peer alone, and no rule of the protocol
// may be broken.
//
// usage: random_swarms [--count N] [--seed S] [--replay SEED [--trace]] [--real]
//
// --real: with real kernels on tiny models instead of synthetic sums. Without --seed a fresh one is
// taken and printed. A swarm that fails prints its own seed, which --replay takes.

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/version.hpp"
#include "simulation/event_trace.hpp"
#include "torture/swarm_check.hpp"

namespace {

using namespace swarmpi;

constexpr std::int64_t kFailuresShown = 5;

struct Options {
  std::int64_t count = 1000;
  std::uint64_t seed = 0;
  bool seed_given = false;
  bool replay = false;
  bool trace = false;
  bool real = false;
};

bool read_options(int count, char** arguments, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--trace" || name == "--real") {
      (name == "--trace" ? options.trace : options.real) = true;
      continue;
    }
    if (i + 1 == count) return false;
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(arguments[++i], &end, 0);
    if (*end != '\0') return false;
    if (name == "--count") {
      options.count = static_cast<std::int64_t>(value);
    } else if (name == "--seed" || name == "--replay") {
      options.seed = value;
      options.seed_given = true;
      options.replay = name == "--replay";
    } else {
      return false;
    }
  }
  return true;
}

// A check that fails inside the core ends the process: this says which swarm it was.
char now_running[64] = "";

void name_the_swarm(int) {
  const std::size_t length = std::char_traits<char>::length(now_running);
  const ssize_t written = write(STDERR_FILENO, now_running, length);
  _exit(written < 0 ? 2 : 1);
}

SwarmVerdict check(const RandomSwarm& swarm, Observer* trace) {
  *fmt::format_to_n(now_running, sizeof now_running - 1, "in swarm {}\n", swarm.seed).out = '\0';
  return check_swarm(swarm, trace);
}

RandomSwarm draw(const Options& options, std::uint64_t seed) {
  return options.real ? draw_real_swarm(seed) : draw_swarm(seed);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int replay(const Options& options) {
  const RandomSwarm swarm = draw(options, options.seed);
  fmt::print("{}\n", swarm.text());
  EventTrace trace(stdout);
  const SwarmVerdict verdict = check(swarm, options.trace ? &trace : nullptr);
  const char* fault = verdict.violation.empty() ? "as it should be" : verdict.violation.c_str();
  fmt::print("{} events, {} jobs, {} parts: {}\n", verdict.events, verdict.jobs, verdict.parts,
             fault);
  return verdict.violation.empty() ? 0 : 1;
}

int run_all(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  std::int64_t events = 0, jobs = 0, stopped = 0, diverged = 0, failures = 0;
  for (std::int64_t i = 0; i < options.count; ++i) {
    const RandomSwarm swarm =
        draw(options, mix_bits(mix_bits(options.seed) + static_cast<std::uint64_t>(i)));
    const SwarmVerdict verdict = check(swarm, nullptr);
    events += verdict.events;
    jobs += verdict.jobs;
    if (verdict.status == ExitStatus::stopped) ++stopped;
    if (verdict.status == ExitStatus::no) ++diverged;
    if (verdict.violation.empty()) continue;
    if (++failures > kFailuresShown) continue;
    fmt::print("swarm {} ({}): {}\n", swarm.seed, swarm.text(), verdict.violation);
  }
  const double seconds = seconds_since(start);
  fmt::print(
      "{} swarms, {} stopped and resumed, {} diverged, {} failed; {:.0f} swarms a minute, {:.0f} "
      "events each, {:.2f} us an event\n",
      options.count, stopped, diverged, failures, 60 * static_cast<double>(options.count) / seconds,
      static_cast<double>(events) / static_cast<double>(options.count),
      1e6 * seconds / static_cast<double>(events));
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  if (!read_options(count, arguments, options)) {
    fmt::print(stderr,
               "usage: random_swarms [--count N] [--seed S] [--replay SEED [--trace]] [--real]\n");
    return 2;
  }
  if (!options.seed_given) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    options.seed = static_cast<std::uint64_t>(now.count()) ^ static_cast<std::uint64_t>(getpid());
  }
  std::signal(SIGABRT, name_the_swarm);
  fmt::print("swarmpi {}, seed {}\n", version_line(), options.seed);
  std::fflush(stdout);
  return options.replay ? replay(options) : run_all(options);
}
