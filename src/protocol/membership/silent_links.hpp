#pragma once
// Links that are cut: pairs of peers that do not hear each other although the leader hears both.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/ids.hpp"

namespace swarmpi {

class SilentLinks {
 public:
  /// Its ends, the lower id first.
  using Link = std::pair<PeerId, PeerId>;
  static Link between(PeerId one, PeerId other) { return std::minmax(one, other); }

  /// A peer that does not hear another reports it every `period_s`; a report is valid for
  /// `validity_s`, which allows for delays.
  SilentLinks(double period_s, double validity_s) : period_s_(period_s), validity_s_(validity_s) {}

  /// `from` does not hear `other`, whose last message to the leader came at `last_message_s`.
  void reported(PeerId from, PeerId other, double now_s, std::optional<double> last_message_s);
  void forget(PeerId peer);
  struct Worst {
    PeerId peer;
    std::set<Link> links;  ///< that prove it
  };
  /// Of the peers with a link that was reported for two periods or longer, while the leader heard
  /// both ends: the one with the most such links; of several the highest id. `is_heard`: whether
  /// the leader hears this peer now; reports about others are dropped.
  std::optional<Worst> worst(double now_s, const std::function<bool(PeerId)>& is_heard);

 private:
  struct Report {
    double first_s = 0;
    double last_s = 0;
    bool proven = false;  // reports came for long enough, and the leader has heard the other since
  };

  double period_s_;
  double validity_s_;
  std::map<Link, Report> reports_;
};

}  // namespace swarmpi
