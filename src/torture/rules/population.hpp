#pragma once
// Who lives, who is part of the run, and how each peer ended.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "core/status.hpp"
#include "protocol/messages/message_kinds.hpp"

namespace swarmpi {

/// Whether the reason of an end has these words (ending_words.hpp).
bool says(const Status& status, std::string_view words);
/// Whether a peer ended because no run answered: a newcomer, or one that only the dead leader knew.
bool found_no_run(const Status& status);
/// Whether a peer ended because it could not be killed, or could not have others killed. What such
/// peers believe is not checked.
bool is_cut_off(const Status& status);
/// Whether the run was to stop, and ended without peers that nobody could reach.
bool has_left_the_silent(const Status& status);
bool lost_its_disk(const Status& status);
/// Whether the run ended because work hangs that nobody else could do, or without the checkpoint
/// that was asked for, and says so.
bool ends_for_a_hang(const Status& status);
/// The end of a peer whose disk hung as it was to lead, and of those that it told: nothing on the
/// disk says so.
bool was_ended_by_one_alone(const Status& status);

class Population {
 public:
  explicit Population(const std::vector<PeerId>& peers) : living_(peers.begin(), peers.end()) {}

  /// A peer that was not there at the start will join.
  void expect_newcomer(PeerId peer);
  /// The peer does what only members do.
  void admit(PeerId peer) { joined_ += static_cast<std::int64_t>(outsiders_.erase(peer)); }
  /// The peer is no longer part of the run.
  void exclude(PeerId peer) { outsiders_.insert(peer); }
  void ask_to_leave(PeerId peer) { may_leave_.insert(peer); }
  /// Lives, and was not asked to leave.
  bool stays(PeerId peer) const { return lives(peer) && !may_leave_.contains(peer); }
  /// It says that it goes: a newcomer may, for nobody lets it in.
  std::string leave(PeerId peer);
  /// Some do not hear the peer, or did not.
  void unheard(PeerId peer) { unheard_.insert(peer); }
  /// The peer died, maybe in the moment in which it finished. If it did that because its disk was
  /// lost, the others may never hear of it, and go on.
  void died(PeerId peer);
  /// The peer finished. `run_ended`: a mark of the end is durable. `known`: to a peer that goes on.
  void finished(PeerId peer, const Status& status, bool run_ended, bool known);
  /// A peer that was declared dead finished. `run_ended`: as the durable mark says, if there is
  /// one.
  std::string finished_though_dead(PeerId peer, const Status& status,
                                   const EndMessage* run_ended) const;

  /// Finished ones included.
  bool lives(PeerId peer) const { return living_.contains(peer); }
  bool has_ended(PeerId peer) const { return ended_.contains(peer); }
  bool goes_on(PeerId peer) const { return lives(peer) && !has_ended(peer); }
  /// Not a member: in no view yet, or no longer part of the run.
  bool is_outsider(PeerId peer) const { return outsiders_.contains(peer); }
  bool leads(PeerId peer) const { return *living_.begin() == peer; }
  /// Peers that live, or have finished, and were in a view.
  std::vector<PeerId> members() const;
  /// How peers ended.
  const std::map<PeerId, Status>& ended() const { return ended_; }
  /// Whether a member ended because it could not reach the others.
  bool somebody_was_cut_off() const;
  /// Newcomers that became members.
  std::int64_t joined() const { return joined_; }
  /// All members end in the same way, or as `successor` did, if that is given.
  std::string unequal_ends(const std::optional<PeerId>& successor) const;

 private:
  /// Whether the others need not end as this peer did.
  bool ended_alone(PeerId peer, const Status& status) const;

  std::set<PeerId> living_;
  std::set<PeerId> outsiders_;
  std::set<PeerId> may_leave_;
  std::set<PeerId> newcomers_;
  std::set<PeerId> unheard_;
  std::map<PeerId, Status> ended_;
  std::int64_t joined_ = 0;
};

}  // namespace swarmpi
