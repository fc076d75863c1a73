#pragma once
// Pairs of peers that do not hear each other although both speak to the leader: their link is cut.

#include <map>
#include <optional>
#include <utility>

#include "core/ids.hpp"

namespace swarmpi {

class SilentLinks {
 public:
  /// `from` does not hear `other`.
  void reported(PeerId from, PeerId other, double now_s);
  void forget(PeerId peer);
  /// Of the peers named in reports that are not older than `recent_s`: the one with the most cut
  /// links; of several the highest id.
  std::optional<PeerId> worst(double now_s, double recent_s) const;

 private:
  std::map<std::pair<PeerId, PeerId>, double> reported_s_;  // lower id first
};

}  // namespace swarmpi
