#pragma once
// Preemption by the deck at a point of the protocol ([[faults.at]]) instead of at a time.

#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "protocol/messages/ports.hpp"

namespace swarmpi {

class FaultTriggers {
 public:
  /// Watches for those of `faults` that are of the peer `self`; flips are the JobExecutor's.
  FaultTriggers(const std::vector<FaultAt>& faults, PeerId self);

  /// The fault that is to be injected before this action is executed, if any; each comes once.
  std::optional<FaultEvent> due(const Action& action);

 private:
  std::vector<FaultAt> waiting_;
};

}  // namespace swarmpi
