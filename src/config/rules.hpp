#pragma once
// Rules between keys that need no data, and what a deck asks of the number of ranks it is run on.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "core/status.hpp"

namespace swarmpi {

struct BrokenRule {
  /// The keys that the rule is about. The message begins with the place where one of them was
  /// given: an override, else the first that the deck gives.
  std::vector<std::string> keys;
  std::string message;  ///< names its keys
};

/// The first rule that the config breaks.
std::optional<BrokenRule> broken_rule(const Config& config);
/// Of the rules of swarm.collectives alone.
std::optional<BrokenRule> broken_rule_of_collectives(const Config& config);

/// Whether `ranks` ranks can run the deck: at least one is no spare, each pin has a worker, each
/// stage a peer, each fault its peer. Errors: bad_input, beginning with the key.
Status check_ranks(const Config& config, std::int64_t ranks);

}  // namespace swarmpi
