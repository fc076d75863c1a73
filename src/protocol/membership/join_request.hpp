#pragma once
// A peer that asks to be let in: a newcomer, or one of which perhaps only a dead leader knew.

#include <algorithm>

namespace swarmpi {

class Membership;
class Outbox;

// So often a peer asks; one that no run need know of gives up after this time. A member that has
// lost its leader goes on: it pings whoever is to lead, and that one is killed if it is silent.
inline constexpr double kAskAgainS = 0.5;
inline constexpr double kPatienceToJoinS = 30;

class JoinRequest {
 public:
  /// From now on, to be sent at `next_s` first.
  JoinRequest(double now_s, double next_s, double patience_s)
      : next_s_(next_s), gives_up_s_(now_s + patience_s) {}

  /// If it is due: sends it to all that the peer knows of, and again after kAskAgainS.
  void send(const Membership& membership, double now_s, Outbox& outbox);
  bool gives_up(double now_s) const { return now_s >= gives_up_s_; }
  /// When it is to be sent again or given up.
  double due_s() const { return std::min(next_s_, gives_up_s_); }

 private:
  double next_s_;
  double gives_up_s_;
};

}  // namespace swarmpi
