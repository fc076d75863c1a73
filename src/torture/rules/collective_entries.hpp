#pragma once
// When a stage may be sealed for a collective, and when a replica may enter it.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/messages/ports.hpp"

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
  void says(PeerId peer, const CollectiveWord& word) {
    if (word.news == CollectiveNews::ready) ready_[{word.view, word.stage}].insert(peer);
    if (word.news == CollectiveNews::frozen) frozen_[word.seal].insert(peer);
  }
  /// All replicas have made the collective of this very view; and one seal has one way.
  std::string seals(const SealMessage& message);
  /// All replicas have frozen for this seal.
  std::string enters(double now_s, PeerId peer, const EnterCollective& action);
  void hears(PeerId, const CollectiveReady&) { ++counts_.ready; }
  void hears(PeerId peer, const CollectiveDone& done) {
    ++counts_.done;
    entered_s_.erase({peer, done.stage});
  }
  void hears(PeerId peer, const CollectiveFailed& failed) {
    ++counts_.failed;
    entered_s_.erase({peer, failed.stage});
  }
  void aborts(double now_s, PeerId peer, const AbortCollective& action);
  /// Whether one has just been ended that had hung without a word for so long.
  bool hung(double now_s, double at_least_s) const {
    return now_s - last_hung_s_ < at_least_s && longest_hung_s_ >= at_least_s;
  }
  const CollectiveCounts& counts() const { return counts_; }

 private:
  std::map<std::pair<ViewNumber, StageId>, std::set<PeerId>> ready_;
  std::map<SealId, std::set<PeerId>> frozen_;
  std::map<SealId, StageSeal> seals_;                       // one peer's part of each
  std::map<std::pair<PeerId, StageId>, double> entered_s_;  // and not heard of since
  double last_hung_s_ = 0, longest_hung_s_ = 0;
  CollectiveCounts counts_;
};

}  // namespace swarmpi
