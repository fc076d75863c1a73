#pragma once
// Signs of life, and who has been silent for too long. The leader and everybody else tell each
// other all the time; whoever waits for something from another peer asks it. Deaths are events of
// the transport; this is for what no transport reports: a process that hangs, a link that is cut,
// an MPI without fault tolerance.

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "protocol/messages/outbox.hpp"

namespace swarmpi {

class Heartbeats {
 public:
  Heartbeats(PeerId self, double period_s) : self_(self), period_s_(period_s) {}

  /// Whom to tell and to watch from now on: the leader all others, the others the leader.
  void watch(const std::vector<PeerId>& peers, double now_s);
  /// Any message is a sign of life.
  void heard(PeerId from, double now_s);
  /// When beat() is due next; nothing for a peer that is alone.
  std::optional<double> due_s() const;
  /// Sends what is due, and asks those of `awaited` who have been silent for a period. If this peer
  /// itself comes late, for it was stopped or starved, others get as much longer: they may have
  /// spoken meanwhile.
  void beat(double now_s, const std::set<PeerId>& awaited, Outbox& outbox);
  struct Silent {
    PeerId peer;
    double since_s = 0;  ///< seconds of silence
  };
  /// The peers that were silent for longer than this.
  std::vector<Silent> silent(double now_s, double patience_s) const;
  bool is_silent(PeerId peer, double now_s, double patience_s) const;
  /// When it was heard last, however late this peer itself came; nothing if never.
  std::optional<double> spoke_s(PeerId peer) const;

 private:
  PeerId self_;
  double period_s_;
  std::set<PeerId> told_;                  // all the time
  std::map<PeerId, double> last_heard_s_;  // of these, and of those who are asked; later, if late
  std::map<PeerId, double> spoke_s_;
  double next_beat_s_ = 0;
};

}  // namespace swarmpi
