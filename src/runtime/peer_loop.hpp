#pragma once
// Runs one peer on the four seams (clock, transport, compute, storage): hands it events one at a
// time and executes the actions that it returns.

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

/// Called with every record once it is durable, on the protocol thread.
using RecordObserver = std::function<void(const StoreRecord&)>;

/// Called with every action before it is executed.
using ActionObserver = std::function<void(const Action&)>;

class PeerLoop {
 public:
  PeerLoop(Peer& peer, Seams seams, Inbox& inbox, RecordObserver observer,
           ActionObserver before_actions = nullptr);
  /// Runs until the peer is done; returns its status. `stopped` at once where its emulated process
  /// is dead; `failed` where no event can come any more though it is not done.
  Status run();

 private:
  void handle(const Event& event);
  /// Sleeps until there is one; nothing where none can come any more, or the peer is dead.
  std::optional<Event> next_event();
  std::optional<Event> ready_event();
  void execute(Action action);
  void observe(const Event& event);
  bool nothing_can_come() const;
  bool dead() const { return seams_.emulated_process != nullptr && seams_.emulated_process->dead; }
  /// Returns when the peer is not stopped, or is dead.
  void wait_while_stopped();

  Peer& peer_;
  Seams seams_;
  Inbox& inbox_;
  RecordObserver observer_;
  ActionObserver before_actions_;
  std::deque<StoreRecord> unconfirmed_;
  std::int64_t jobs_running_ = 0;
  std::int64_t stores_pending_ = 0;
  std::optional<double> timer_due_s_;  // the last one set
  bool timer_was_last_ = false;        // the last event was TimerDue
  double last_progress_s_ = 0;         // the last event that is_progress()
};

}  // namespace swarmpi
