#pragma once
// A peer that asks to be let in: a newcomer, or one of which perhaps only a dead leader knew.

#include <algorithm>

#include "protocol/membership/membership.hpp"
#include "protocol/messages/outbox.hpp"

namespace swarmpi {

// A newcomer asks to join so often, and gives up after this time.
inline constexpr double kAskAgainS = 0.5;
inline constexpr double kPatienceToJoinS = 30;

class JoinRequest {
 public:
  /// From now on, to be sent at `next_s` first.
  JoinRequest(double now_s, double next_s)
      : next_s_(next_s), gives_up_s_(now_s + kPatienceToJoinS) {}

  /// Sends it, and again after kAskAgainS, to all that the peer knows of.
  void send(const Membership& membership, double now_s, Outbox& outbox);
  bool is_due(double now_s) const { return now_s >= next_s_; }
  bool gives_up(double now_s) const { return now_s >= gives_up_s_; }
  /// When the first of these comes true.
  double due_s() const { return std::min(next_s_, gives_up_s_); }

 private:
  double next_s_;
  double gives_up_s_;
};

}  // namespace swarmpi
