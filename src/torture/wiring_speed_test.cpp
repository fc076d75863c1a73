// The throughput of each wiring, on equal peers and on peers of different speed, compared with the
// ideal and with perfect balance; regression/measure/wiring_speed.cpp prints more of it.

#include "torture/wiring_speed.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace swarmpi::wiring_speed_test {
namespace {

TEST(EqualPeers, RotatedTiesReachTheIdeal) {
  for (const std::int64_t stages : {1, 2, 4, 8}) {
    for (const std::int64_t microbatches : {52, 208}) {
      for (const std::uint64_t seed : {1, 2, 3}) {
        const WiringScene scene{.stages = stages, .microbatches = microbatches, .seed = seed};
        EXPECT_GE(share_of_ideal(scene), 0.97) << stages << " stages, " << microbatches;
      }
    }
  }
}

// What SWARM is compared with is not slower than its authors say.
TEST(EqualPeers, StaticPipelinesReachTheTimesOfTheirTextbooks) {
  for (const std::int64_t stages : {1, 2, 4, 8}) {
    for (const std::int64_t microbatches : {52, 208}) {
      WiringScene scene{.stages = stages, .microbatches = microbatches};
      std::string line = fmt::format("{} stages, {:3} microbatches:", stages, microbatches);
      for (const Method method : {Method::gpipe, Method::one_f_one_b, Method::data_parallel}) {
        if (method == Method::data_parallel && stages > 1) continue;
        scene.method = method;
        const double share = share_of_textbook(scene);
        EXPECT_GE(share, 0.97) << name_of(method) << " " << line;
        line += fmt::format("  {} {:.3f}", name_of(method), share);
      }
      std::printf("%s\n", line.c_str());
    }
  }
}

TEST(UnevenPeers, IwrrComesCloseToPerfectBalanceAndFixedDoesNot) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    WiringScene scene{.slow_ratio = 4, .seed = seed};
    EXPECT_GE(share_of_perfect_balance(scene), 0.95) << "seed " << seed;
    scene.wiring = Wiring::fixed;
    EXPECT_LE(share_of_perfect_balance(scene), 0.35) << "seed " << seed;
    // Filling and draining a pipeline takes time, whatever the wiring.
    scene = {.stages = 2, .microbatches = 208, .slow_ratio = 4, .seed = seed};
    EXPECT_GE(share_of_perfect_balance(scene), 0.9) << "seed " << seed;
  }
}

double mean_share(WiringScene scene) {
  double sum = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    scene.seed = seed;
    sum += share_of_perfect_balance(scene);
  }
  return sum / 3;
}

TEST(UnevenPeers, WhoeverLooksAtSpeedWinsInEveryShape) {
  for (const std::int64_t stages : {1, 2, 4, 8}) {
    for (const std::int64_t microbatches : {40, 52, 104, 208}) {
      WiringScene scene{.stages = stages, .microbatches = microbatches, .slow_ratio = 4};
      std::string line = fmt::format("{} stages, {:3} microbatches:", stages, microbatches);
      const double iwrr = mean_share(scene);
      scene.ties = WiringTies::random;
      const double random_ties = mean_share(scene);
      line += fmt::format("  iwrr {:.3f}, random ties {:.3f}", iwrr, random_ties);
      // Rotation is for equal peers, and costs uneven ones nothing; but for steps so short that a
      // slow peer of eight stages does less than a microbatch for each stage to come.
      EXPECT_GE(iwrr, (microbatches >= 52 ? 0.99 : 0.96) * random_ties) << line;
      for (const Wiring wiring : {Wiring::uniform, Wiring::round_robin, Wiring::fixed}) {
        scene.wiring = wiring;
        const double other = share_of_perfect_balance(scene);
        line += fmt::format("  {} {:.3f}", name_of(wiring), other);
        EXPECT_GT(iwrr, 2 * other) << line;
      }
      std::printf("%s\n", line.c_str());
    }
  }
}

}  // namespace
}  // namespace swarmpi::wiring_speed_test
