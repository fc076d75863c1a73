#pragma once
// Signs of life between the leader and everybody else, and who has been silent for too long.
// Deaths are events of the transport; this is for what no transport reports: a process that hangs,
// a link that is cut, an MPI without fault tolerance.

#include <map>
#include <optional>
#include <vector>

#include "swarm/outbox.hpp"

namespace swarmpi {

class Heartbeats {
 public:
  Heartbeats(PeerId self, double period_s, double patience_s)
      : self_(self), period_s_(period_s), patience_s_(patience_s) {}

  /// Whom to tell and to watch from now on: the leader all others, the others the leader.
  void watch(const std::vector<PeerId>& peers, double now_s);
  /// Any message is a sign of life.
  void heard(PeerId from, double now_s);
  /// When beat() is due next; nothing for a peer that is alone.
  std::optional<double> due_s() const;
  /// Sends what is due. If this peer itself comes late, for it was stopped or starved, others get
  /// as much longer: they may have spoken meanwhile.
  void beat(double now_s, Outbox& outbox);
  struct Silent {
    PeerId peer;
    double since_s = 0;  ///< seconds of silence
  };
  /// The peer that was silent for longer than the patience allows.
  std::optional<Silent> suspect(double now_s) const;

 private:
  PeerId self_;
  double period_s_;
  double patience_s_;
  std::map<PeerId, double> last_heard_s_;
  double next_beat_s_ = 0;
};

}  // namespace swarmpi
