#pragma once
// Failure detection: who has been silent for too long. The leader and each other peer send each
// other heartbeats every period; a peer that waits for something from a third one pings it. Deaths
// are events of the transport; this is for what no transport reports: a process that hangs, a link
// that is cut, an MPI without fault tolerance.

#include <functional>
#include <optional>
#include <vector>

#include "core/flat_map.hpp"
#include "core/flat_set.hpp"
#include "protocol/messages/outbox.hpp"

namespace swarmpi {

class Heartbeats {
 public:
  /// `very_late_s`: who comes so late may be taken for silent.
  Heartbeats(PeerId self, double period_s, double very_late_s)
      : self_(self), period_s_(period_s), very_late_s_(very_late_s) {}

  /// From the next beat on.
  void set_period(double period_s) { period_s_ = period_s; }
  double period_s() const { return period_s_; }
  /// The peers to send heartbeats to and to watch from now on: all others for the leader, the
  /// leader for the others. `pings_others`: beats are due even if there are none, for beat() pings.
  void watch(const std::vector<PeerId>& peers, double now_s, bool pings_others);
  /// A message has come; any is a sign of life.
  void heard(PeerId from, double now_s);
  /// The peer is dead.
  void forget(PeerId peer) { last_message_s_.erase(peer); }
  /// When beat() is due next; nothing for a peer that watches and pings nobody.
  std::optional<double> due_s() const;
  using SignOfLife = std::function<HeartbeatMessage(PeerId to)>;
  /// Whom beat() pings.
  struct Awaited {
    /// At once, and with every beat after half of `very_late_s` of silence.
    FlatSet<PeerId> judged = {};
    /// After `quiet_s` of silence, and as long after each ping again.
    FlatSet<PeerId> owing = {};
    double quiet_s = 0;
  };
  /// Sends the heartbeats that are due, and pings. If this peer itself comes late by more than one
  /// period, for it was stopped or starved, the silence of all others counts as so much less: their
  /// messages may wait to be read.
  void beat(double now_s, const Awaited& awaited, const SignOfLife& sign_of_life, Outbox& outbox);
  /// Since when it sends the peer heartbeats in time; nothing if it does not watch it.
  std::optional<double> regular_since_s(PeerId peer) const;
  struct Silent {
    PeerId peer;
    double since_s = 0;  ///< how long, in seconds
  };
  /// The peers, watched or pinged, that have been silent for longer than `patience_s`. Who is not
  /// watched sends nothing of its own accord: it is silent from the first ping on that it has not
  /// answered.
  std::vector<Silent> silent(double now_s, double patience_s) const;
  bool is_silent(PeerId peer, double now_s, double patience_s) const {
    return silent_s(peer, now_s) > patience_s;
  }
  bool watches(PeerId peer) const { return watched_.contains(peer); }
  /// For how long the peer was not heard, as silent() counts; 0 if it is neither watched nor
  /// pinged.
  double silent_s(PeerId peer, double now_s) const;
  /// When the last message of the peer came, not put off as in beat(); nothing if none has.
  std::optional<double> last_message_s(PeerId peer) const;

 private:
  struct Heard {
    double at_s = 0;                          // the last time; put off if this peer is late
    std::optional<double> asked_s = {};       // of the first ping since; likewise
    std::optional<double> last_asked_s = {};  // of the last ping
  };

  void ping(PeerId peer, Heard& heard, double now_s, Outbox& outbox) const;
  double silent_s(PeerId peer, const Heard& heard, double now_s) const;

  PeerId self_;
  double period_s_;
  double very_late_s_;
  FlatMap<PeerId, double> watched_;  // since when
  bool pings_others_ = false;
  FlatMap<PeerId, Heard> last_heard_;  // of those watched or awaited
  FlatMap<PeerId, double> last_message_s_;
  double next_beat_s_ = 0;
  double late_at_s_ = 0;  // the last time that this peer came very late
};

}  // namespace swarmpi
