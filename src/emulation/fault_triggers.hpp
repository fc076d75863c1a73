#pragma once
// Preemption by the deck at a point of the protocol ([[faults.at]]) instead of at a time.

#include <functional>
#include <vector>

#include "config/config.hpp"
#include "protocol/observer.hpp"

namespace swarmpi {

class FaultTriggers final : public Observer {
 public:
  /// Calls `inject_fault` with the event of each of `faults` of the peer `self`, once, before the
  /// action at which it is due is carried out; flips are the JobExecutor's.
  FaultTriggers(const std::vector<FaultAt>& faults, PeerId self,
                std::function<void(FaultEvent)> inject_fault);

  void asked(double now_s, PeerId peer, const Action& action) override;

 private:
  std::vector<FaultAt> waiting_;
  std::function<void(FaultEvent)> inject_fault_;
};

}  // namespace swarmpi
