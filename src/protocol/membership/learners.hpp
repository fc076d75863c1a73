#pragma once
// Spares and newcomers learn the stages that need them most, and serve once their state is that of
// the other replicas.

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "protocol/membership/departures.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/agreement.hpp"

namespace swarmpi {

class Learners {
 public:
  using Role = Departures::Role;

  /// `workers`: how many peers are to serve, as long as there are as many; peers above
  /// `highest_id_at_start` have joined later.
  Learners(const RunPlan& plan, std::int64_t workers, PeerId highest_id_at_start)
      : plan_(plan), workers_(workers), highest_id_at_start_(highest_id_at_start) {}

  /// How many peers are to serve: as many as at the start, and all who have joined since.
  std::int64_t wanted_workers(const View& view) const;
  /// Whether the peer was not there at the start.
  bool joined_later(PeerId peer) const { return peer > highest_id_at_start_; }
  /// How far the run is: the last step that is committed, and the last one that is sealed.
  struct Progress {
    Step committed;
    Step sealed;
  };
  /// Lets spares and newcomers learn the stages with the largest need per peer, until enough peers
  /// serve or learn. `needs`: asked for that of each stage. Whether the view has changed.
  bool assign(View& view, const Departures& departures,
              const std::function<std::vector<double>()>& needs, const Progress& progress,
              double now_s);
  /// Whether the peer may begin to learn: it was not dropped lately, and, as a spare, has started
  /// up.
  bool may_begin(const View& view, PeerId peer, double now_s);
  /// Whether the peer was dropped as a learner and is not to learn yet.
  bool backs_off(PeerId peer, double now_s) const;

  /// A learner of the stage says what it holds.
  void enter(const LearnedMessage& message, PeerId from);
  /// The peer is gone.
  void forget(PeerId peer);
  /// What the peer has said of other stages than those in its table is of no use: it has left them
  /// since, and learns them anew.
  void keep_listed(PeerId peer, const std::vector<LearnedMessage>& listed);

  struct Judged {
    std::vector<Role> ready;  ///< hold the agreed state, and are wanted
    std::vector<Role> wrong;  ///< hold another one
  };
  /// What has become of the learners, where all agree that `hashes` are those of step `agreed`.
  Judged judge(const View& view, const Departures& departures, Step agreed,
               const StateHashes& hashes) const;
  /// The learner serves the stage.
  void promote(View& view, PeerId peer, StageId stage);
  /// The peer learns this stage no more, and none for a while, twice as long each time. How long,
  /// in seconds.
  double drop(View& view, PeerId peer, StageId stage, double now_s);
  /// All goes on from a checkpoint: nothing is learned yet.
  void leave_history() {
    learned_.clear();
    begin_after_.reset();
  }

  /// Whether counts are what a look at all members gives. For torture.
  bool counts_hold(const View& view) const;

 private:
  struct Learned {
    Step step;
    std::vector<std::uint64_t> tensors;  // hashes
  };
  struct Backoff {
    int times = 0;
    double until_s = 0;
  };

  /// Whether a spare's start-up is over; the first question begins it.
  bool spare_ready(PeerId spare, double now_s);
  /// Whether the step is committed that was sealed when the first of those came who are to begin.
  bool may_begin_now(const Progress& progress);
  /// The stage with the largest need per peer that serves or learns it and stays, of those that
  /// `peer` has room for; none where it has room for none.
  std::optional<StageId> neediest_stage(const View& view, const Departures& departures,
                                        const std::vector<double>& needs, PeerId peer) const;
  std::int64_t count_joined(const View& view) const;

  const RunPlan& plan_;
  std::int64_t workers_;
  PeerId highest_id_at_start_;
  std::map<Role, Learned> learned_;
  std::map<PeerId, Backoff> backoffs_;    // of learners that were dropped
  std::map<PeerId, double> ready_at_s_;   // of spares that start up
  std::optional<Step> begin_after_;       // those who wait for a commit
  mutable std::int64_t joined_ = 0;       // members with ids above those of the start
  mutable std::int64_t counted_in_ = -1;  // the view's revision in which that was so
};

}  // namespace swarmpi
