#pragma once
// The file system that all peers share. It holds what is durable: writes that were completed.

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
  std::vector<RestartPoint> checkpoints;  ///< those with a manifest
  std::optional<EndMessage> ended;        ///< the mark of the end of the run
  Term ended_in;                          ///< term of the leader that wrote the mark

  bool complete() const { return ended && ended->code == ExitStatus::good; }
  /// Whether the run has ended, and no later term exists: the mark of a dead leader may come late.
  bool has_ended() const { return ended && ended_in == *terms.rbegin(); }

  /// The checkpoint of the latest step; null if there is none.
  const RestartPoint* newest() const {
    const auto earlier = [](const auto& a, const auto& b) { return a.state.step < b.state.step; };
    const auto last = std::max_element(checkpoints.begin(), checkpoints.end(), earlier);
    return last == checkpoints.end() ? nullptr : &*last;
  }
};

}  // namespace swarmpi
