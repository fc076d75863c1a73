// What the wiring makes of a step in virtual time: ties that are rotated and random ones, wide
// windows and that of a deck by default, equal peers and stages with one peer that is four times
// slower.
//
//   wiring_speed [--json]
//
// --json: a last line with the figures, for regression/harness/record.py.

#include "torture/wiring_speed.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace swarmpi;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

// A share for each of three seeds.
std::vector<double> of_seeds(WiringScene scene, double (*share)(const WiringScene&)) {
  std::vector<double> shares;
  for (const std::uint64_t seed : {1, 2, 3}) {
    scene.seed = seed;
    shares.push_back(share(scene));
  }
  return shares;
}

void measure(WiringScene scene, nlohmann::ordered_json& figures) {
  const bool equal = scene.slow_ratio == 1;
  const auto share = equal ? share_of_ideal : share_of_perfect_balance;
  const std::string name = fmt::format("{}_{}_stages_{}_microbatches", equal ? "equal" : "uneven",
                                       scene.stages, scene.microbatches);
  std::string line =
      fmt::format("{} peers, {} stages, {:3} microbatches:", equal ? "equal" : "uneven",
                  scene.stages, scene.microbatches);
  const auto add = [&](const char* what) {
    const std::vector<double> shares = of_seeds(scene, share);
    figures[name + "_" + what + "_mean"] = mean(shares);
    figures[name + "_" + what + "_least"] = least(shares);
    line += fmt::format("  {} {:.3f} (least {:.3f})", what, mean(shares), least(shares));
  };
  add("rotated");
  scene.ties = WiringTies::random;
  add("random");
  scene.ties = WiringTies::rotated;
  scene.window = scene.default_window();
  add("default_window");
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  fmt::print(
      "share of the shortest time of a step that any wiring could reach (equal peers), or of one\n"
      "with all peers busy all the time (one of four is four times slower); windows of four times\n"
      "the peers, but for default_window\n");
  nlohmann::ordered_json figures;
  for (const double slow_ratio : {1, 4}) {
    for (const std::int64_t stages : {1, 2, 4, 8}) {
      for (const std::int64_t microbatches : {52, 208}) {
        measure({.stages = stages, .microbatches = microbatches, .slow_ratio = slow_ratio},
                figures);
      }
    }
  }
  if (!json) return 0;
  const char* what =
      "Share of T* (equal peers), or of perfect balance (one of four peers of each stage four "
      "times slower), that a step by iwrr takes in virtual time; three seeds.";
  fmt::print("{}\n", nlohmann::ordered_json{{"what", what}, {"figures", figures}}.dump());
}
