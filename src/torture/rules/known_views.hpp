#pragma once
// Which views leaders have sent, and which each peer has received or made.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "protocol/membership/view.hpp"
#include "torture/rules/population.hpp"

namespace swarmpi {

class KnownViews {
 public:
  /// All members of `first` know it.
  explicit KnownViews(ViewRef first);

  /// The peer created the file of the term, and leads it.
  void created_term(PeerId peer, Term term) { leaders_[term] = peer; }
  /// The peer has received or made this view.
  void adopts(PeerId peer, const ViewRef& view);
  /// `to_ended`: the receiver has finished.
  std::string sends(PeerId leader, PeerId to, const ViewRef& view, bool to_ended);
  /// The leader lets all go: not every later view arrives.
  void all_exit() { all_exit_ = true; }
  /// Another peer could not reach it.
  void unreachable(PeerId peer) { unreachable_.insert(peer); }

  const View& first() const { return *first_; }
  /// That was published.
  const View& newest() const { return *newest_; }
  /// The last that the peer has adopted or made.
  const View& known_to(PeerId peer) const {
    const auto known = views_.find(peer);
    return known == views_.end() ? *first_ : *known->second;
  }
  /// Whether the peer serves or learns the stage, or did.
  bool has_had(PeerId peer, StageId stage) const { return has_stage_.contains({peer, stage}); }
  /// Whether the peer is in the view of another one that goes on.
  bool known_to_others(PeerId peer, const Population& population) const;
  /// The leader of the last term, if it was not there at the start.
  std::optional<PeerId> newcomer_that_led_last() const;
  /// At the end each peer has received what was sent to it.
  std::string undelivered(const Population& population) const;

 private:
  ViewRef first_;
  ViewRef newest_ = no_view();
  std::map<PeerId, ViewRef> views_;                       // the newest that each knows
  std::map<std::pair<PeerId, PeerId>, ViewNumber> sent_;  // the newest, by sender and receiver
  std::map<Term, PeerId> leaders_;
  std::set<std::pair<PeerId, StageId>> has_stage_;
  std::set<PeerId> unreachable_;
  bool all_exit_ = false;
};

}  // namespace swarmpi
