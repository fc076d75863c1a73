#pragma once
// Runs one peer on the seams (clock, transport, compute, storage, and collectives where there are
// any): hands it events one at a time and executes the actions that it returns.

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "core/clock.hpp"
#include "protocol/observer.hpp"
#include "protocol/peer.hpp"
#include "runtime/collectives.hpp"
#include "runtime/compute.hpp"
#include "runtime/inbox.hpp"
#include "runtime/storage.hpp"
#include "transport/transport.hpp"

namespace swarmpi {

struct Seams {
  Clock& clock;
  Transport& transport;
  Compute& compute;
  Storage& storage;
  CollectivesSeam* collectives = nullptr;  ///< null: there are none
};

class PeerLoop {
 public:
  PeerLoop(Peer& peer, Seams seams, Inbox& inbox) : peer_(peer), seams_(seams), inbox_(inbox) {}
  /// The observer is called on the protocol thread. It may have the transport end the peer: then
  /// what it was told of, and the rest of the peer's actions, do not happen.
  void watch(Observer& observer) { observers_.add(observer); }
  /// Runs until the peer is done; returns its status. `stopped` at once where the transport has
  /// ended it; `failed` where no event can come any more though it is not done.
  Status run();

 private:
  void handle(const Event& event);
  /// Sleeps until there is one; nothing where none can come any more, or the peer was ended.
  std::optional<Event> next_event();
  std::optional<Event> ready_event();
  void execute(Action action);
  template <class Kind>
  void collect(Kind& action) {
    if (seams_.collectives != nullptr) seams_.collectives->take(std::move(action));
  }
  void count_answer(const Event& event);
  bool nothing_can_come() const;
  void abandon(Lane lane);

  Peer& peer_;
  Seams seams_;
  Inbox& inbox_;
  Observers observers_;
  std::int64_t last_record_ = 0;  // the number of the last that is not durable; 0: all are
  std::int64_t jobs_running_ = 0;
  std::map<Lane, std::int64_t> stores_pending_;  // but for records
  std::optional<double> timer_due_s_;            // the last one set
  bool timer_was_last_ = false;                  // the last event was TimerDue
  bool inbox_is_next_ = false;                   // it goes before messages, the next time
  double last_progress_s_ = 0;                   // the last event that is_progress()
};

}  // namespace swarmpi
