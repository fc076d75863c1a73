#pragma once
// What a peer hears of the others, for tests.

#include <vector>

#include "protocol/membership/departures.hpp"
#include "protocol/membership/failure_detector.hpp"
#include "protocol/membership/membership.hpp"
#include "protocol/messages/outbox.hpp"

namespace swarmpi::testing {

// Of whoever was asked to leave, all others have been heard since.
inline const Departures::HeardSince kAllAreHeard = [](PeerId, double) { return true; };

// What a leader alone hears of the others.
struct Hearing {
  Hearing(const RunPlan& plan, std::int32_t peers)
      : membership(PeerId(0), {ids_up_to(peers), {}, Term(1)}, plan),
        detector(membership, plan, outbox) {}
  static std::vector<PeerId> ids_up_to(std::int32_t peers) {
    std::vector<PeerId> ids;
    for (std::int32_t id = 0; id < peers; ++id) ids.emplace_back(id);
    return ids;
  }
  void heard(const std::vector<std::int32_t>& peers, double now_s) {
    for (const std::int32_t id : peers) detector.heard(PeerId(id), now_s);
  }
  // This peer has been silent for long, and an order to kill it came to nothing.
  void nobody_can_kill(std::int32_t id, double now_s) {
    constexpr double kLongAgoS = 1000;
    detector.watch({PeerId(id)}, now_s - kLongAgoS, false);
    detector.suspect(now_s);
    detector.first_seen_to_survive(PeerId(id));
  }

  Outbox outbox;
  Membership membership;
  FailureDetector detector;
};

}  // namespace swarmpi::testing
