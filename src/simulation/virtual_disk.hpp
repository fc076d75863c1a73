#pragma once
// The file system that all peers share: what is durable. Whatever is still on its way when its
// writer dies never gets here.

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "protocol/messages/ports.hpp"

namespace swarmpi {

struct VirtualDisk {
  struct Entry {
    PeerId writer;
    Term term;  ///< that the writer led
    StoreRecord record;
  };

  std::set<Term> terms;
  std::vector<Entry> journal;
  std::vector<RestartPoint> checkpoints;  ///< whose manifests are written
  std::optional<EndMessage> ended;        ///< the mark
  Term ended_in;                          ///< by the leader of this term

  bool complete() const { return ended && ended->code == ExitStatus::good; }
  /// Nobody has led since. What a dead leader had under way may come late.
  bool has_ended() const { return ended && ended_in == *terms.rbegin(); }

  /// The checkpoint of the latest step; null if there is none.
  const RestartPoint* newest() const {
    const auto earlier = [](const auto& a, const auto& b) { return a.state.step < b.state.step; };
    const auto last = std::max_element(checkpoints.begin(), checkpoints.end(), earlier);
    return last == checkpoints.end() ? nullptr : &*last;
  }
};

}  // namespace swarmpi
