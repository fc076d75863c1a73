#pragma once
// Executes one peer's actions on the four seams. The only loop: events in, actions out.

#include <deque>
#include <functional>
#include <optional>

#include "core/clock.hpp"
#include "swarm/peer.hpp"
#include "transport/transport.hpp"
#include "worker/compute.hpp"
#include "worker/inbox.hpp"
#include "worker/storage.hpp"

namespace swarmpi {

struct Seams {
  Clock& clock;
  Transport& transport;
  Compute& compute;
  Storage& storage;
};

/// Told of every record once it is durable, on the protocol thread.
using Observer = std::function<void(const StoreRecord&)>;

class Worker {
 public:
  Worker(Peer& peer, Seams seams, Inbox& inbox, Observer observer);
  /// Returns how the peer ended.
  Status run();

 private:
  std::optional<Event> next_event();
  void execute(Action action);
  void observe(const Event& event);
  Status stalled() const;

  Peer& peer_;
  Seams seams_;
  Inbox& inbox_;
  Observer observer_;
  std::deque<StoreRecord> unconfirmed_;
  std::int64_t jobs_running_ = 0;
  std::int64_t stores_pending_ = 0;
  std::optional<double> timer_due_s_;  // the last one set
};

}  // namespace swarmpi
