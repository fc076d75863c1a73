#pragma once
// A leader's: jobs, loading and disks that hang. Nobody gives itself up on its own judgement, for
// where all hang on one server nobody could do better: before a peer is given up for its job, or
// because it cannot load its stages, or a leader hands over for its disk, others must have done a
// small piece of such work just now.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/status.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/message_kinds.hpp"
#include "protocol/messages/stalls.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

class LateWork {
 public:
  /// `plan` outlives it.
  explicit LateWork(const RunPlan& plan) : plan_(&plan) {}

  // ---- What peers report
  /// A job or a disk hangs, or goes on. Whether it is news that it hangs.
  bool enter(const LateMessage& message, PeerId from, double now_s);
  /// A peer has done what try_others() or decide() asked for.
  void enter(const TriedMessage& message, PeerId from, double now_s);
  void lost(PeerId peer);
  /// The peer has said in the first person that it is gone, maybe to the leader before this one.
  void gave_itself_up(PeerId peer, double at_s);
  /// Another view: what peers have told before may not be so any more, and all tell it again.
  void new_view();
  bool hangs(PeerId peer, Task task) const { return late_.contains({peer, task}); }
  /// Whether a job, or loading, hangs that the run waits for.
  bool work_hangs(const View& view) const;
  /// "peer 3: fsync of step-40/... (5.2 s)"; "" if nothing of this peer hangs.
  std::string what_hangs(PeerId peer, double now_s) const;

  // ---- Jobs and loading
  struct Decision {
    std::vector<std::pair<PeerId, TryMessage>> tries;
    std::optional<std::pair<PeerId, std::string>> resigns;  // and why
    std::optional<Status> end;                              // nobody else can do what is late
  };
  /// One peer at a time is given up: each of its stages has another replica that has shown that it
  /// works, and so has loaded them; and after one that has gone, and the view without it is
  /// settled, a step must be committed before the next, or long have been waited for. REQUIRES: no
  /// tables are awaited.
  Decision decide(const View& view, Step committed, double now_s);

  // ---- The leader's own storage
  /// The leader's own lane hangs since long. Who is asked now whether theirs works.
  std::vector<std::pair<PeerId, TryMessage>> try_others(const View& view, PeerId self,
                                                        double now_s);
  /// The first in the view that has shown that it does, once that is so long ago that a server
  /// which has come back for it has come back for this peer as well.
  std::optional<PeerId> who_can_store(const View& view, double now_s) const;
  /// How long the leader's own lane hangs since try_others() was first called; 0: it does not.
  double storage_hangs_s(double now_s) const {
    return storage_.since_s ? now_s - *storage_.since_s : 0;
  }
  void storage_goes_on() { storage_ = {}; }

 private:
  struct Late {
    std::string what;
    double since_s = 0;  // on the leader's clock
  };
  /// One question to several peers.
  struct Trial {
    std::int64_t number = 0;
    double asked_s = 0;
    double first_asked_s = 0;  // for this peer, of trials without an answer
    std::set<PeerId> answered;
  };
  /// The last peer that was told to go.
  struct Resigned {
    PeerId peer;
    double at_s = 0;
    bool view_since = false;        // all have heard a view since
    std::optional<Step> committed;  // when the view without it was settled
  };
  struct StorageTrial {
    std::optional<double> since_s;
    Trial trial;
    std::set<PeerId> able;             // have answered in time
    std::optional<double> answered_s;  // the first of them
  };

  double patience_s() const { return plan_->swarm.suspect_after_s; }
  /// Whether a job of the peer, or its loading, hangs: it can do no work.
  bool works_not(PeerId peer) const { return hangs(peer, Task::job) || hangs(peer, Task::load); }
  /// Whether another may be told to go: the last that was is gone, and the others have got over it.
  bool may_give_up_the_next(const View& view, Step committed, double now_s);
  /// The other replicas of each stage of the peer; empty where a stage has none that is not late.
  std::vector<std::vector<PeerId>> helpers(const View& view, PeerId peer) const;
  Decision judge(PeerId peer, Task task, const Late& late, const View& view, double now_s);

  const RunPlan* plan_;
  std::map<std::pair<PeerId, Task>, Late> late_;
  std::map<std::pair<PeerId, Task>, std::string> told_;  // what was news
  std::int64_t last_number_ = 0;
  std::optional<PeerId> tried_for_;  // a peer whose job is late
  Trial trial_;
  // When nobody could help, as where all hang on one server: who can do so first after that need
  // not be who is well alone.
  std::optional<double> all_hung_at_s_;
  std::optional<Resigned> resigned_;

  StorageTrial storage_;
};

}  // namespace swarmpi
