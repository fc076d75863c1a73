#pragma once
// Pairs of peers that do not hear each other although both speak to the leader: their link is cut.

#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "core/ids.hpp"

namespace swarmpi {

class SilentLinks {
 public:
  /// Whoever does not hear another says so every `period_s`, but for what delays it: a report
  /// counts for `counts_s`.
  SilentLinks(double period_s, double counts_s) : period_s_(period_s), counts_s_(counts_s) {}

  /// `from` does not hear `other`, whom the leader itself has heard last at `spoke_s` (if ever).
  void reported(PeerId from, PeerId other, double now_s, std::optional<double> spoke_s);
  void forget(PeerId peer);
  /// Of the peers with a link that was reported again and again, while the leader heard both ends:
  /// the one with the most such links; of several the highest id. `speaks`: whether it still does.
  std::optional<PeerId> worst(double now_s, const std::function<bool(PeerId)>& speaks);

 private:
  struct Report {
    double first_s = 0;
    double last_s = 0;
    bool proven = false;  // the other one has spoken since the first
  };

  double period_s_;
  double counts_s_;
  std::map<std::pair<PeerId, PeerId>, Report> reports_;  // lower id first
};

}  // namespace swarmpi
