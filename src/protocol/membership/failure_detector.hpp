#pragma once
// What a peer does about silence, as in SWIM, but that suspicion changes no view: a suspect is
// killed, never just left out, because two peers that suspect each other must not both continue.
// The death that follows is like any other.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/membership/heartbeat_words.hpp"
#include "protocol/membership/heartbeats.hpp"
#include "protocol/membership/membership.hpp"
#include "protocol/membership/silent_links.hpp"

namespace swarmpi {

/// Why a peer was taken for dead, and killed.
struct Suspicion {
  double silent_s = 0;  ///< how long nobody here had heard it; 0 where it was heard
  std::string why;      ///< for people
};

/// A suspect that lives on after an order to kill it.
struct Survivor {
  PeerId peer;
  double ordered_s = 0;  ///< how long ago that was ordered first
};

class FailureDetector {
 public:
  /// All outlive it.
  FailureDetector(const Membership& membership, const RunPlan& plan, Outbox& outbox);

  // ---- Signs of life

  /// How often this peer and the others send heartbeats from now on: the leader, for whom all
  /// others are more patient, more rarely where there are many.
  void set_period();
  /// Of those that this peer sends.
  double period_s() const { return heartbeats_.period_s(); }
  /// Exchanges heartbeats with these peers from now on. `pings_others`: beat() is due even if there
  /// are none.
  void watch(const std::vector<PeerId>& peers, double now_s, bool pings_others) {
    heartbeats_.watch(peers, now_s, pings_others);
  }
  /// A message has come: a sign of life, but from a peer whose event loop stands still.
  void heard(PeerId from, double now_s);
  void heard(PeerId from, const HeartbeatMessage& beat, double now_s);
  /// How far the event loop of this peer is, for its own heartbeats.
  void set_progress(std::int64_t handled, double oldest_waits_s) {
    handled_ = handled;
    oldest_waits_s_ = oldest_waits_s;
  }
  HeartbeatMessage answer_to(PeerId pinging, double now_s, double answers_s) const;
  std::optional<double> due_s() const { return heartbeats_.due_s(); }
  /// Whether beat() is due.
  bool is_due(double now_s) const { return due_s() && now_s >= *due_s(); }
  /// Sends heartbeats, and pings the silent: soon those that are next to lead and those whose
  /// answer decides whether this peer may, after longer those that owe work. If it is itself next
  /// to lead, as far as it hears, it asks all others whether they hear the leader. REQUIRES:
  /// is_due().
  void beat(double now_s, const FlatSet<PeerId>& who_owe, const std::set<PeerId>& who_decide);
  /// Those that have been silent for longer than this peer's patience.
  std::vector<Heartbeats::Silent> silent(double now_s) const;

  // ---- Suspicion

  /// On the timer: has silent peers killed if that is this peer's part, or reports them to the
  /// leader. A leader that another peer hears is left to live; and who hears none of several peers
  /// kills nobody, for it may be its own links that are cut. Those that live on `suspect_after_s`
  /// after an order, which is then repeated, for it may have come to nobody who could follow it.
  std::vector<Survivor> suspect(double now_s);
  /// Whether this is news since the peer was ordered to be killed first: that nobody could.
  bool first_seen_to_survive(PeerId peer);
  /// Whether there are several others and none was heard within this peer's patience.
  bool hears_nobody(double now_s) const;
  /// A leader's: the members that it hears, but that do not hear it.
  std::set<PeerId> deaf_members(double now_s) const;
  /// A leader's: whether they are most of the others.
  bool is_not_heard(double now_s) const;
  /// The silent peers that nobody can kill, as is known: they may live.
  std::set<PeerId> unkillable() const;
  /// Whether a message of the peer has come since this time.
  bool heard_since(PeerId peer, double at_s) const {
    return heartbeats_.last_message_s(peer).value_or(-1) >= at_s;
  }
  /// A leader's: `from` does not hear `other`. Asks both whether they live.
  void reported(PeerId from, PeerId other, double now_s);
  /// A leader's: has a peer killed where a link is cut, though it is heard here.
  void kill_at_a_cut_link(double now_s);
  /// Why this peer has had `peer` killed, if it has and the peer has not answered since.
  std::optional<Suspicion> suspicion(PeerId peer) const;
  /// The peer is dead.
  void forget(PeerId peer);
  /// This peer was stopped itself: its suspicions were wrong.
  void forget_kill_orders() {
    kill_orders_.clear();
    pardons_.clear();
    suspicions_.clear();
  }

 private:
  enum class Reason : std::uint8_t { silent, deaf, cut_link };
  struct KillOrder {
    double first_s = 0;
    double at_s = 0;  // the last time
    Reason reason = Reason::silent;
    // It is heard here, but not by those at the other ends of these.
    std::set<SilentLinks::Link> cut_links = {};
    double link_reported_s = -1;  // the last time that one of these was
    bool answered = false;        // a ping that was sent with it
    bool held_back = false;       // for nobody is heard
    bool was_sent = false;        // at some time
    bool survives = false;        // is known to
  };
  /// An order that fell because the peer has answered.
  struct Pardon {
    double first_s = 0;  // of the order
    double at_s = 0;
  };

  /// How long a peer may be silent before this one acts.
  double patience_s() const;
  /// The live members that would lead one after the other, up to the first that is not silent: up
  /// to this peer at most.
  std::vector<PeerId> line_of_succession(double now_s, double patience_s) const;
  /// All others, if this peer is next to lead, as far as it hears.
  std::vector<PeerId> asked_about_the_leader(double now_s) const;
  /// What a heartbeat says, whomever it is for.
  HeartbeatMessage heartbeat_for_all(double now_s) const;
  bool another_hears_the_leader(double now_s) const;
  void kill_the_deaf(double now_s);
  /// To the leader, whose view still has members after this peer's patience that are gone for this
  /// peer: no link to them is left.
  void report_the_gone(double now_s);
  /// The peer has answered a ping that this one sent at that time.
  void answered(PeerId peer, double sent_s);
  /// Has the peer killed, unless that is ordered already.
  void kill(PeerId peer, KillOrder order, Suspicion suspicion);
  /// Of orders that are overdue: drops those for whose peers there is no reason any more, and
  /// repeats the others.
  std::vector<Survivor> overdue(double now_s);
  /// A ping goes with the order.
  void send(PeerId peer, KillOrder& order);
  bool has_no_reason_now(PeerId peer, const KillOrder& order, double now_s) const;

  const Membership& membership_;
  const RunPlan& plan_;
  Outbox& outbox_;
  Heartbeats heartbeats_;
  HeartbeatWords words_;
  std::int64_t handled_ = 0;
  double oldest_waits_s_ = 0;
  SilentLinks silent_links_;  // as the others report them to the leader
  std::map<PeerId, KillOrder> kill_orders_;
  std::map<PeerId, Pardon> pardons_;
  std::map<PeerId, Suspicion> suspicions_;  // of those that were killed
  std::map<PeerId, double> gone_since_s_;   // members of the view that are gone, as was heard here
  std::pair<ViewNumber, std::size_t> gone_in_;  // in this view, with so many dead
};

}  // namespace swarmpi
