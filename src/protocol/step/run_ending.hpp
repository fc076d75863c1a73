#pragma once
// The end of the run: how it ends is decided once; its mark is stored; then all others are told,
// and wait for each other.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/record_port.hpp"

namespace swarmpi {

/// How long peers that have not acknowledged the end are waited for, in a run that does not recover
/// (there nobody kills the silent).
inline constexpr double kPatienceAtTheEndS = 5;

class RunEnding {
 public:
  /// running, then decided: its mark is being stored; announced: all others are told; over: all
  /// have acknowledged it, or were waited for long enough.
  enum class State : std::uint8_t { running, decided, announced, over };

  /// `waits_for_ever`: for acknowledgements, because the silent are killed; but not during a stop.
  explicit RunEnding(bool waits_for_ever) : waits_for_ever_(waits_for_ever) {}

  State state(double now_s) const;
  bool decided() const { return state_ != State::running; }
  bool announced() const { return state_ == State::announced; }
  /// REQUIRES: decided().
  const Status& how() const { return how_; }
  EndMessage message() const { return {how_.code(), how_.message()}; }

  /// No new work is to begin, and the run is to end when all that was begun is durable; the first
  /// reason stays.
  void request_stop(const std::string& why) {
    if (!stop_requested_) stop_requested_ = why;
  }
  const std::optional<std::string>& stop_requested() const { return stop_requested_; }

  /// The run ends like this. The mark to store; nothing if the end was decided before.
  std::optional<StoreEnd> decide(const Status& how);
  /// No mark can be stored: so the run does not count as complete.
  void storage_failed(const Status& why);
  /// Whom to send message(): all others, the first time. Acknowledgements are waited for
  /// `stop_patience_s` at most where a stop was requested. REQUIRES: decided().
  std::vector<PeerId> announce(const View& view, PeerId self, double now_s, double stop_patience_s);
  /// The peer has acknowledged the end, or is dead.
  void acknowledged(PeerId peer) { unacknowledged_.erase(peer); }
  /// The peer is silent, and is not waited for.
  void unreachable(PeerId peer);

  /// When those that have not acknowledged the end are given up; nothing before it is announced,
  /// nor where they are waited for for ever. The mark is durable: whoever leads after this leader
  /// finds it, and ends likewise.
  std::optional<double> gives_up_s() const { return gives_up_s_; }
  /// For messages about stalls. REQUIRES: decided().
  std::string waiting_for() const;

 private:
  bool waits_for_ever_;
  State state_ = State::running;
  std::optional<std::string> stop_requested_;  // why
  Status how_;
  std::set<PeerId> unreachable_;
  std::set<PeerId> unacknowledged_;  // were sent the end, and have not answered
  std::optional<double> gives_up_s_;
};

}  // namespace swarmpi
