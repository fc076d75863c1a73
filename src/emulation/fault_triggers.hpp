#pragma once
// Preemption by the deck at a point of the protocol: [[faults.at]].

#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "protocol/messages/ports.hpp"

namespace swarmpi {

class FaultTriggers {
 public:
  /// Those of `faults` that happen to `self`, but for flips.
  FaultTriggers(const std::vector<FaultAt>& faults, PeerId self);

  /// What is to happen before this action is executed, if anything; each fault once.
  std::optional<std::string> due(const Action& action);

 private:
  std::vector<FaultAt> waiting_;
};

}  // namespace swarmpi
