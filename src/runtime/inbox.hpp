#pragma once
// The queue in which the threads of a peer leave events for its protocol thread. That one sleeps on
// one descriptor for all of them, beside those that the transport waits for.

#include <deque>
#include <mutex>
#include <optional>

#include "core/clock.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

class Inbox {
 public:
  Inbox();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  void post(Event event);
  /// Makes the descriptor readable once, though there is no event.
  void wake();
  /// How long the event that take() would return has waited, in seconds; 0 if there is none.
  double oldest_waits_s();
  /// The next event, if there is one.
  std::optional<Event> take();
  /// Readable while an event is here, or after wake() until take() finds none.
  int descriptor() const { return descriptor_; }

 private:
  void signal();

  int descriptor_;  // an eventfd
  std::mutex mutex_;
  struct Posted {
    Event event;
    double at_s;
  };
  WallClock clock_;
  std::deque<Posted> events_;  // guarded by mutex_
  bool signalled_ = false;     // guarded by mutex_: while events_ is not empty, at least
};

}  // namespace swarmpi
