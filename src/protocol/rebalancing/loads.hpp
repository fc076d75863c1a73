#pragma once
// How much work waits at each peer for each of its stages, averaged since the last decision of
// Algorithm 2.

#include <map>
#include <utility>
#include <vector>

#include "protocol/membership/view.hpp"
#include "protocol/messages/message_kinds.hpp"

namespace swarmpi {

/// Passes that wait at a time, on average; by peer, for one stage.
using PeerLoads = std::map<PeerId, double>;
/// The same for all stages. A peer of which nothing is known is missing.
using StageLoads = std::map<StageId, PeerLoads>;

class Loads {
 public:
  /// Loads older than `period_s` do not count.
  explicit Loads(double period_s) : period_s_(period_s) {}

  /// A new view: what was counted in those before does not count.
  void count_in(ViewNumber view, double now_s);
  /// What a report says. A fact of another view changes nothing.
  void enter(const LoadFact& fact, PeerId from, double now_s);
  /// Time passes; where steps are open, it is time that loads are averaged over.
  void pass(double now_s, bool steps_open);
  /// The loads that count now; of stages that nobody has reported about there are none.
  StageLoads averages(double now_s) const;
  /// Whether the peer has reported about the stage in this view.
  bool has_reported(PeerId peer, StageId stage) const { return waiting_.contains({stage, peer}); }
  /// A decision was made: loads are averaged from here on.
  void begin_anew();

 private:
  struct Waiting {
    double waited_s = 0;  // as reported last
    double before_s = 0;  // of it, what had waited when the last decision was made
    double heard_s = 0;   // when it was reported
  };

  double period_s_;
  ViewNumber view_;
  std::map<std::pair<StageId, PeerId>, Waiting> waiting_;
  double open_s_ = 0;  // since the last decision, or the view
  double passed_until_s_ = 0;
};

}  // namespace swarmpi
