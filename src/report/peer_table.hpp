#pragma once
// Each peer's work and time in a run, as aligned lines.

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/records.hpp"

namespace swarmpi {

/// What a peer, or a stage, did in all.
struct WorkTotal {
  std::set<std::int64_t> stages;
  std::map<std::int64_t, std::int64_t> microbatches;                    ///< of each peer
  double compute_s = 0, recovery_s = 0, transfer_s = 0, waiting_s = 0;  ///< add up to its time
  double bytes_sent = 0;

  void add(const PeerRow& row);
  double time_s() const { return compute_s + recovery_s + transfer_s + waiting_s; }
  std::int64_t all_microbatches() const;
};

/// Adds up rows as they come, so that its memory does not grow with their number.
class PeerTable {
 public:
  void add(const PeerRow& row);
  /// A line of headings and one for each peer; one for each stage where there are many peers. Empty
  /// where a single peer served all.
  std::vector<std::string> lines() const;

 private:
  struct Steps {
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = -1;
  };

  double kept_share() const;

  std::map<std::int64_t, WorkTotal> peers_, stages_;
  WorkTotal all_;
  std::map<std::pair<std::int64_t, std::int64_t>, Steps> served_;  // by peer and stage
  std::int64_t rows_ = 0;
};

}  // namespace swarmpi
