#pragma once
// Where the threads of a peer leave events for its protocol thread, which sleeps until one comes.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "swarm/ports.hpp"

namespace swarmpi {

class Inbox {
 public:
  void post(Event event);
  /// The next event; nothing if none came within `timeout_s`.
  std::optional<Event> take(double timeout_s);

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Event> events_;  // guarded by mutex_
};

}  // namespace swarmpi
