#pragma once
// What befalls a peer whose preemption is only emulated: any thread may set it; the transport and
// the loop of its process obey.

#include <atomic>

namespace swarmpi {

struct EmulatedProcess {
  std::atomic<bool> dead = false;     ///< it does nothing any more
  std::atomic<bool> stopped = false;  ///< it does nothing as long as this lasts
  std::atomic<bool> cut = false;      ///< nothing reaches it or leaves it as long as this lasts

  void begin_anew() { dead = stopped = cut = false; }
};

}  // namespace swarmpi
