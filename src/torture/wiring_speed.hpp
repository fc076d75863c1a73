#pragma once
// The throughput of a swarm in virtual time, where only passes and links take time: what a wiring,
// or a method, makes of equal peers, and of peers of which some are slower.

#include <cstdint>

#include "config/config.hpp"

namespace swarmpi {

/// Four peers a stage; links of 10 us; a forward pass takes 1 ms, a backward pass 2 ms.
struct WiringScene {
  static constexpr std::int64_t kReplicas = 4;

  std::int64_t stages = 1;
  std::int64_t microbatches = 52;
  double slow_ratio = 1;  ///< of one peer of each stage
  std::uint64_t seed = 1;
  Wiring wiring = Wiring::iwrr;
  WiringTies ties = WiringTies::rotated;
  std::int64_t window = 0;  ///< 0: four times the peers
  Method method = Method::swarm;

  /// The window that a deck has by default.
  std::int64_t default_window() const;
};

/// Of twenty synchronous steps, those after the third: seconds of each. A check fails where the
/// swarm breaks a rule.
double step_s(const WiringScene& scene);

/// What it would take if every peer were busy all the time, over what a step takes.
double share_of_perfect_balance(const WiringScene& scene);

/// The same of T*, below which no wiring comes: a stage waits at the head of a step for the first
/// activations, and at its tail for the last gradients to come back through the stages before it;
/// between them its peers do whole microbatches.
double share_of_ideal(const WiringScene& scene);

/// The same of what the authors of static pipelines say of them.
double share_of_textbook(const WiringScene& scene);

}  // namespace swarmpi
