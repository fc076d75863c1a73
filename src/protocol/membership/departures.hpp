#pragma once
// Which peers leave the run or a stage. A peer that was asked to leave hands over the stages that
// only it serves, gets no new work, and is released once what it has done is committed: no work is
// lost.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/membership/room.hpp"
#include "protocol/membership/view.hpp"

namespace swarmpi {

class Departures {
 public:
  using Role = std::pair<PeerId, StageId>;

  // ---- Who was asked to leave
  void notice(PeerId peer, const std::string& why, double now_s) {
    notices_.try_emplace(peer, Notice{now_s, why});
  }
  /// Why all members were asked to stop, if all were: that stops the run. `unkillable`: they are
  /// silent and count as asked, for what they were asked is not heard.
  std::optional<std::string> asked_of_all(const View& view,
                                          const std::set<PeerId>& unkillable) const;
  /// Whether the peer was heard since this time.
  using HeardSince = std::function<bool(PeerId, double)>;
  /// The members that depart from now on, and why: of those that were asked `together_s` ago the
  /// others were not, as all that were heard since have shown. Of one that is silent that is not
  /// known: it is killed first, or counts as asked.
  std::vector<std::pair<PeerId, std::string>> begin(const View& view, double now_s,
                                                    double together_s,
                                                    const HeardSince& heard_since);
  bool departs(PeerId peer) const { return departing_.contains(peer); }
  const std::set<PeerId>& departing() const { return departing_; }
  /// Whether it has departed in good order: a JoinMessage of it may still be under way.
  bool was_released(PeerId peer) const { return released_.contains(peer); }
  void lost(PeerId peer);

  /// How many replicas of the stage leave neither it nor the run.
  std::int64_t staying(const View& view, StageId stage) const;
  /// Whether this peer is the only such replica.
  bool stays_alone(const View& view, PeerId peer, StageId stage) const;
  /// Members that serve a stage and do not depart.
  std::int64_t serving(const View& view) const;
  /// Members that serve or learn a stage and do not depart.
  std::int64_t busy(const View& view) const;

  // ---- Handing over
  struct HandedOver {
    bool view_changed = false;
    std::vector<Role> gave_way;  ///< are learned no more, for the sake of another stage
  };
  /// For each stage of a departing peer: the peer leaves it if others stay; else one that stays
  /// learns it, which `may_learn` and has room: a spare if there is one, else the peer that serves
  /// the fewest. Where nobody has room beside what it learns, that gives way. Where nobody has room
  /// at all, the stage stays where it is.
  HandedOver hand_over(View& view, const std::function<bool(PeerId)>& may_learn,
                       const MemoryNeeds& needs = {});
  /// The peer stays in the stage after all. Whether it was about to leave.
  bool cancel_leaving(View& view, PeerId peer, StageId stage);
  /// Where all replicas of a stage are leaving it, for those that stayed have died: all stay.
  void keep_last_replicas(View& view);

  // ---- Draining
  /// What decides whether a peer has still work to do for a stage.
  struct Progress {
    Step newest;  ///< that was opened
    Step committed;
    Step agreed;  ///< the newest on whose state all agree: steps may be committed beyond it
    std::function<bool(PeerId, StageId)> writes;  ///< a part of a checkpoint
  };
  /// Takes stages from the peers that leave them once all that they have done for them is committed
  /// and agreed on, and they write no part of a checkpoint. Those roles.
  std::vector<Role> remove_drained(View& view, const Progress& progress);
  /// Takes the departing peers that serve nothing any more, but for `self`, out of the view. Those.
  std::vector<PeerId> release_drained(View& view, PeerId self);
  /// All goes on from a checkpoint: nobody has work to do any more.
  void leave_history() { drained_after_.clear(); }

 private:
  struct Notice {
    double at_s = 0;
    std::string why;
  };

  /// Lets a peer learn the stage, unless one that stays learns it already; or keeps a replica that
  /// was about to move.
  void choose_successor(View& view, StageId stage, const std::function<bool(PeerId)>& may_learn,
                        const MemoryNeeds& needs, HandedOver& done);
  /// Where what the peer learns cannot be spared, it does not give way.
  Room room_of_successor(const View& view, PeerId peer, StageId stage,
                         const MemoryNeeds& needs) const;
  bool is_drained(PeerId peer, StageId stage, const Progress& progress);

  std::map<PeerId, Notice> notices_;
  std::set<PeerId> departing_;
  std::set<PeerId> released_;
  std::map<Role, Step> drained_after_;  // the last step that they work on
};

}  // namespace swarmpi
