#pragma once
// The state of a process whose preemption is only emulated. Any thread may set it; the transport
// and the loop of the peer that lives in it obey.

#include <atomic>

namespace swarmpi {

struct EmulatedProcess {
  std::atomic<bool> dead = false;     ///< the peer does nothing any more
  std::atomic<bool> stopped = false;  ///< the peer does nothing while this is set (SIGSTOP)
  std::atomic<bool> cut = false;      ///< no message reaches or leaves it while this is set

  void reset() { dead = stopped = cut = false; }
};

}  // namespace swarmpi
