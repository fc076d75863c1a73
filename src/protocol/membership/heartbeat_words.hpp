#pragma once
// What the heartbeats of others say: how far their event loops are, and whom they hear.

#include <cstdint>
#include <optional>
#include <set>

#include "core/flat_map.hpp"
#include "core/flat_set.hpp"
#include "core/ids.hpp"
#include "protocol/messages/message_kinds.hpp"

namespace swarmpi {

class HeartbeatWords {
 public:
  /// `period_s`: of heartbeats; `patience_s`: of the leader.
  HeartbeatWords(double period_s, double patience_s)
      : period_s_(period_s), patience_s_(patience_s) {}

  void set_period(double period_s) { period_s_ = period_s; }
  /// A heartbeat has come. `regular_since_s`: since when this peer sends it its own in time.
  void came(PeerId from, const HeartbeatMessage& beat, double now_s,
            std::optional<double> regular_since_s);
  /// Whether events wait at the peer for longer than the leader's patience and none is handled:
  /// then nothing that comes from it is a sign of life.
  bool stands_still(PeerId peer) const { return stand_still_.contains(peer); }
  /// Whether the peer says that it takes this one for the leader, too, and has heard it within the
  /// leader's patience.
  bool hears(PeerId peer, PeerId leader, double now_s) const;
  /// The peers that are heard, but have not heard this one for longer than the leader's patience,
  /// and have said so for two periods; not if this peer may have been silent itself.
  std::set<PeerId> deaf(double now_s) const;
  void forget(PeerId peer) {
    last_.erase(peer);
    stand_still_.erase(peer);
  }

 private:
  struct Last {
    std::int64_t handled = 0;
    PeerId leader;
    double leader_silent_s = 0;
    double at_s = 0;
    std::optional<double> deaf_since_s;
  };

  double period_s_;
  double patience_s_;
  FlatMap<PeerId, Last> last_;
  FlatSet<PeerId> stand_still_;  // few or none: asked for at each message
};

}  // namespace swarmpi
