#pragma once
// How a stage comes to add up its sums by a collective of its replicas (NCCL), which is quick, and
// never part of a recovery: the first death, error or deadline ends it for the rest of the view,
// what it was at counts nothing, and the sums that went in, which all still have, are reduced point
// to point. Nobody waits for its end.
//
//   replica    awaits_id --> making --> ready <--> frozen --> entered      one for each view
//                   \           \         |          /          /
//                    '-----------'--> over <--------'----------'           until the next view
//   leader     seals for the collective if all replicas were ready in its very view, lets them
//              enter when all have frozen, and voids the seal when one of them says that it is over

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/messages/collectives.hpp"
#include "protocol/messages/outbox.hpp"

namespace swarmpi {

/// Frozen sums that a seal has a collective add up.
struct SumsForCollective {
  ViewNumber view;  // whose collective
  Step step;
  SealId seal;
  std::int64_t attempt = 0;  // as in the seal
};

/// A replica's part in the collective of its stage, in one view.
class CollectiveWay {
 public:
  /// Begins to make it. REQUIRES: `self` is one of several replicas of the stage in this view.
  CollectiveWay(PeerId self, StageId stage, const View& view, Outbox& outbox);

  // What is of another view, or comes twice, is ignored.
  void receive(const CollectiveIdMade& made, Outbox& outbox);
  void receive(const CollectiveIdMessage& message, Outbox& outbox);
  void receive(const CollectiveReady& ready, Outbox& outbox);
  void receive(const EnterMessage& message, Outbox& outbox);
  void receive(const CollectiveFailed& failed, Outbox& outbox);
  /// Whether the result counts: it is of what was entered here last, and no abort had begun.
  bool counts(const CollectiveDone& done);

  /// Sums that a standing seal has a collective add up, and that are not reduced here yet. Says,
  /// once each, that they may be entered (`is_next`: none before them are still to be reduced), or
  /// that nothing comes of it.
  void consider(const SumsForCollective& sums, bool is_next, Outbox& outbox);
  /// Whether what the collective of this view has left in `out` may be used.
  bool lives(const ViewNumber& view) const { return view == view_ && state_ != State::over; }
  /// The seal of this step, if it was for the collective, is void.
  void seal_is_void(Step step, Outbox& outbox);
  /// The peer has died: if it was a member, a view without it follows, and the leader need not be
  /// told.
  void lost(PeerId peer, Outbox& outbox);
  /// The view is another one.
  void leave_view(Outbox& outbox) { abort("the view has changed", outbox); }

 private:
  enum class State : std::uint8_t { awaits_id, making, ready, frozen, entered, over };

  void make(const std::string& id, Outbox& outbox);
  /// Ends it here; the leader is not told.
  void abort(const std::string& why, Outbox& outbox);
  void tell(CollectiveNews news, const SumsForCollective& sums, Outbox& outbox) const;

  PeerId self_;
  StageId stage_;
  ViewNumber view_;
  PeerId leader_;
  std::vector<PeerId> members_;  // by id
  State state_ = State::awaits_id;
  std::optional<SumsForCollective> sums_;  // that were told to be frozen last
  std::set<SealId> told_over_;             // seals of which the leader was told so
  bool follows_a_death_ = false;
  std::string why_over_;
};

/// What a leader hears of the collectives of its view.
class CollectiveBallot {
 public:
  /// The view has changed: nothing that was heard counts.
  void begin(const ViewNumber& view);
  /// Counts what a replica says; false if it speaks of another view.
  bool enter(const CollectiveWord& word, PeerId from);
  /// Whether all these have made the collective of the stage, and it is over for none of them.
  bool all_ready(StageId stage, const std::vector<PeerId>& replicas) const;
  /// Whether all these have frozen for this seal.
  bool all_frozen(const SealId& seal, const std::vector<PeerId>& replicas) const;

 private:
  ViewNumber view_;
  std::map<StageId, std::set<PeerId>> ready_;
  std::set<StageId> over_;
  std::map<SealId, std::set<PeerId>> frozen_;
};

}  // namespace swarmpi
