// What recovery costs, in virtual time, with the very core that runs on a cluster.
//
// usage: recovery_cost deaths [--count N] [--seed S]
//        recovery_cost replay SEED lineage|redo
//        recovery_cost traffic DECK [--peers N] [--steps N]
//
// deaths: what is done again after a death, over N runs in each of which one peer dies at a moment
// that is drawn, with what was sent kept until the commit (lineage) and without (redo). Status 1 if
// lineage does again what a living peer had done.
// replay: one of these runs, event by event.
// traffic: what the deck's run sends and keeps where nobody dies, with recovery and without. Status
// 1 if recovery needs more messages than the tables that answer a view.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "regression/recovery_deaths.hpp"
#include "regression/recovery_traffic.hpp"

namespace {

using namespace swarmpi;

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
  std::fprintf(stderr,
               "usage: recovery_cost deaths [--count N] [--seed S]\n"
               "       recovery_cost replay SEED lineage|redo\n"
               "       recovery_cost traffic DECK [--peers N] [--steps N]\n");
  return 2;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  if (what == "deaths") {
    std::uint64_t deaths = 10'000, seed = 1;
    if (!read_options(count - 2, arguments + 2, "--count", deaths, "--seed", seed)) return usage();
    return count_deaths(static_cast<std::int64_t>(deaths), seed) ? 0 : 1;
  }
  if (what == "replay" && count == 4) {
    std::uint64_t seed = 0;
    const std::string recovery = arguments[3];
    if (!read_number(arguments[2], seed)) return usage();
    if (recovery != "lineage" && recovery != "redo") return usage();
    return replay_death(seed, recovery == "lineage") ? 0 : 1;
  }
  if (what == "traffic" && count > 2) {
    std::uint64_t peers = 4, steps = 50;
    if (!read_options(count - 3, arguments + 3, "--peers", peers, "--steps", steps)) return usage();
    return count_traffic(arguments[2], static_cast<std::int64_t>(peers),
                         static_cast<std::int64_t>(steps));
  }
  return usage();
}
