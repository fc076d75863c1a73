#pragma once
// Executes one peer's actions on the four seams. The only loop: events in, actions out.

#include <deque>
#include <functional>
#include <optional>

#include "core/clock.hpp"
#include "protocol/peer.hpp"
#include "runtime/compute.hpp"
#include "runtime/inbox.hpp"
#include "runtime/storage.hpp"
#include "transport/emulated_process.hpp"
#include "transport/transport.hpp"

namespace swarmpi {

struct Seams {
  Clock& clock;
  Transport& transport;
  Compute& compute;
  Storage& storage;
  const EmulatedProcess* emulated_process = nullptr;  ///< of a peer whose preemption is emulated
};

/// Told of every record once it is durable, on the protocol thread.
using RecordObserver = std::function<void(const StoreRecord&)>;

/// Told of every action before it is executed.
using ActionObserver = std::function<void(const Action&)>;

class PeerLoop {
 public:
  PeerLoop(Peer& peer, Seams seams, Inbox& inbox, RecordObserver observer,
           ActionObserver before_actions = nullptr);
  /// Returns how the peer ended, with what it had to say on its way; or, at once, that it died.
  Status run();

 private:
  void handle(const Event& event);
  /// Sleeps until there is one. Nothing where nothing can come any more.
  std::optional<Event> next_event();
  std::optional<Event> ready_event();
  void execute(Action action);
  void observe(const Event& event);
  bool nothing_can_come() const;
  bool dead() const { return seams_.emulated_process != nullptr && seams_.emulated_process->dead; }
  /// As long as the peer is stopped; who has it killed is heard.
  void rest();

  Peer& peer_;
  Seams seams_;
  Inbox& inbox_;
  RecordObserver observer_;
  ActionObserver before_actions_;
  std::deque<StoreRecord> unconfirmed_;
  std::int64_t jobs_running_ = 0;
  std::int64_t stores_pending_ = 0;
  std::optional<double> timer_due_s_;  // the last one set
  bool timer_went_ = false;            // was the last event
  double last_news_s_ = 0;             // of anything but signs of life
};

}  // namespace swarmpi
