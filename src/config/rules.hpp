#pragma once
// Rules between keys that need no data.

#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"

namespace swarmpi {

struct BrokenRule {
  std::vector<std::string>
      keys;             ///< those it is about: the message is placed where one of them was given
  std::string message;  ///< names its keys
};

/// The first rule that the config breaks.
std::optional<BrokenRule> broken_rule(const Config& config);

}  // namespace swarmpi
