#pragma once
// The faults of a deck happen to the peers of a virtual world.

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "config/config.hpp"
#include "emulation/fault_triggers.hpp"
#include "hardware/preemption_trace.hpp"
#include "simulation/world.hpp"

namespace swarmpi {

class VirtualFaults {
 public:
  using Join = std::function<void(PeerId peer, double at_s)>;
  /// `events`: as of preemption_of_all(). `join`: adds a newcomer to the world. REQUIRES: the world
  /// outlives it.
  VirtualFaults(const Config& config, std::vector<TraceEvent> events, VirtualWorld& world,
                Join join);

  /// Those by the clock that are due before the world's next event.
  void apply_due();

 private:
  void apply(const TraceEvent& event);
  void inject(PeerId peer, FaultEvent event);
  /// When the event of this kind for the same peer comes that ends what the one before began.
  double until_s(FaultEvent kind) const;
  void cut_off(PeerId peer, double duration_s);

  std::vector<TraceEvent> events_;
  std::size_t next_ = 0;  // index of the first that has not happened
  VirtualWorld& world_;
  Join join_;
  std::vector<std::unique_ptr<Observer>> triggers_;  // of [[faults.at]]
};

}  // namespace swarmpi
