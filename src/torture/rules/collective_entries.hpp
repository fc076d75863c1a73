#pragma once
// When a stage may be sealed for a collective, and when a replica may enter it.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/message_kinds.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

/// What came of collectives, at each of their members.
struct CollectiveCounts {
  std::int64_t ready = 0, entered = 0, done = 0, failed = 0, aborted = 0;

  void add(const CollectiveCounts& other) {
    ready += other.ready;
    entered += other.entered;
    done += other.done;
    failed += other.failed;
    aborted += other.aborted;
  }
};

class CollectiveEntries {
 public:
  void says(PeerId peer, const CollectiveWord& word);
  /// All replicas have made the collective of this very view; and one seal has one way.
  std::string seals(const SealMessage& message);
  /// All replicas have frozen for this seal.
  std::string enters(double now_s, PeerId peer, const EnterCollective& action);
  void hears(PeerId, const CollectiveReady&) { ++counts_.ready; }
  void hears(PeerId peer, const CollectiveDone& done);
  void hears(PeerId peer, const CollectiveFailed& failed);
  void aborts(double now_s, PeerId peer, const AbortCollective& action);
  /// Whether one has just been ended that had hung without a word for so long.
  bool hung(double now_s, double at_least_s) const {
    return now_s - last_hung_s_ < at_least_s && longest_hung_s_ >= at_least_s;
  }
  const CollectiveCounts& counts() const { return counts_; }

 private:
  struct Seal {
    std::vector<PeerId> replicas;
    std::optional<ViewNumber> collective;
  };

  std::map<std::pair<ViewNumber, StageId>, std::set<PeerId>> ready_;
  std::map<SealId, std::set<PeerId>> frozen_;
  std::map<SealId, Seal> seals_;
  std::map<std::pair<PeerId, StageId>, double> entered_s_;  // and not heard of since
  double last_hung_s_ = 0, longest_hung_s_ = 0;
  CollectiveCounts counts_;
};

}  // namespace swarmpi
