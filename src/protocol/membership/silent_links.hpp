#pragma once
// Links that are cut: pairs of peers that do not hear each other although the leader hears both.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/ids.hpp"

namespace swarmpi {

class SilentLinks {
 public:
  /// Its ends, the lower id first.
  using Link = std::pair<PeerId, PeerId>;
  static Link between(PeerId one, PeerId other) { return std::minmax(one, other); }

  /// A peer that does not hear another reports it every `period_s`; a report is valid for
  /// `validity_s`, or two periods if that is longer, which allows for delays. Of links that are cut
  /// at the same time the first reports come within `spread_s` and a period.
  SilentLinks(double period_s, double validity_s, double spread_s)
      : period_s_(period_s), validity_s_(validity_s), spread_s_(spread_s) {}

  void set_period(double period_s) { period_s_ = period_s; }
  /// `from` does not hear `other`. The ends that the leader is to ping now: that they answer shows
  /// that they live, and one that lives answers a ping of the other end as well. A message shows
  /// nothing: it may have waited, while its sender is stopped.
  std::vector<PeerId> reported(PeerId from, PeerId other, double now_s);
  /// The peer has answered a ping of the leader's that was sent then.
  void answered(PeerId peer, double sent_s);
  void forget(PeerId peer);
  struct Worst {
    PeerId peer;
    std::set<Link> links;  ///< that prove it
  };
  /// Of the peers with a link that is reported still, after two periods and after both ends have
  /// answered two pings, one after the other: the one with the most such links; of several
  /// the one that reports, though the other does not; of these the highest id. Where each has one
  /// such link only, those of the same peer that may be cut as well are waited for.
  /// `is_heard`: whether the leader hears this peer now; reports about others are dropped.
  std::optional<Worst> worst(double now_s, const std::function<bool(PeerId)>& is_heard);

 private:
  struct End {
    std::optional<double> reported_s;  // when it did last that it does not hear the other
    std::optional<double> pinged_s;    // to be answered
    int answers = 0;
  };
  struct Report {
    double first_s = 0;
    double last_s = 0;
    std::map<PeerId, End> ends = {};
    bool proven = false;
  };

  double valid_s() const { return std::max(validity_s_, 2 * period_s_); }

  double period_s_;
  double validity_s_;
  double spread_s_;
  std::map<Link, Report> reports_;
  std::map<PeerId, std::set<Link>> pinged_;  // whose ends have not answered, by the end
};

}  // namespace swarmpi
