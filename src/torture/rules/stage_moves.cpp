#include "torture/rules/stage_moves.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace swarmpi {
namespace {

// The steps that are open when a peer begins to serve both stages are committed; then it has left
// the old one.
constexpr std::int64_t kStepsToLeave = 3;

std::string move_text(const StageMove& move) {
  return fmt::format("peer {} moves from stage {} to stage {}", move.peer.value, move.from.value,
                     move.to.value);
}

MoveEnd end_of(const View& view, const StageMove& move, bool falls_back) {
  if (falls_back) return MoveEnd::gone_back;
  if (!view.contains(move.peer)) return MoveEnd::gone;
  if (!view.serves(move.peer, move.to)) return MoveEnd::stayed;
  return view.serves(move.peer, move.from) ? MoveEnd::kept_both : MoveEnd::moved;
}

}  // namespace

// A new leader may not have heard of the last views of the one before.
std::string StageMoves::published(const View& view, Incarnation incarnation, Step committed) {
  const bool falls_back = std::exchange(incarnation_, incarnation) < incarnation;
  const bool goes_on = std::exchange(term_, view.number.term) == view.number.term;
  const std::optional<StageMove> before = move_;
  move_ = view.move();
  if (before != move_ || !goes_on) learned_.reset();
  if (before && before == move_ && !goes_on) ended(MoveEnd::taken_over);
  if (before && before != move_) {
    const MoveEnd how = end_of(view, *before, falls_back);
    ended(how);
    // For a new leader others may have died since the move was over.
    const bool judged = goes_on || how != MoveEnd::moved;
    if (std::string wrong = check_end(view, *before, how); judged && !wrong.empty()) return wrong;
  }
  if (!move_) return "";
  if (falls_back) return "no move outlives a going back: " + move_text(*move_);
  if (goes_on && before && before != move_) return "one move at a time: " + move_text(*move_);
  if (!learned_ && view.serves(move_->peer, move_->to)) learned_ = committed;
  if (std::string wrong = check(view, *move_); !wrong.empty()) return wrong;
  return lasts_too_long(committed);
}

std::string StageMoves::check_end(const View& view, const StageMove& move, MoveEnd how) const {
  if (how == MoveEnd::moved && view.staying(move.from).empty()) {
    return "a replica stays in every stage: " + move_text(move);
  }
  const auto stays = [&](PeerId peer) { return peer != move.peer && !may_leave_.contains(peer); };
  const std::vector<PeerId>& staying = view.staying(move.from);
  if (how == MoveEnd::kept_both && !may_leave_.contains(move.peer) &&
      std::any_of(staying.begin(), staying.end(), stays)) {
    return "who has learned the new stage leaves the old one, if others stay: " + move_text(move);
  }
  return "";
}

const MemoryNeeds StageMoves::kNoNeeds;

bool StageMoves::leaves_first(const View& view, const StageMove& move) const {
  const auto budget = view.budgets().find(move.peer);
  return needs_.known() && budget != view.budgets().end() &&
         least_bytes(needs_, {move.from}, {move.to}) > budget->second;
}

std::string StageMoves::check(const View& view, const StageMove& move) const {
  const bool leaves_first = this->leaves_first(view, move);
  if (!view.serves(move.peer, move.from) && !leaves_first) {
    return "who moves serves its old stage, unless it has no room for both: " + move_text(move);
  }
  const bool drains = leaves_first && view.leaves(move.peer, move.from);
  if (!view.serves(move.peer, move.to) && !view.learns(move.peer, move.to) && !drains) {
    return "a move that came to nothing ends: " + move_text(move);
  }
  if (view.leaves(move.peer, move.from) && view.staying(move.from).empty()) {
    return "a replica stays in every stage: " + move_text(move);
  }
  return "";
}

std::string StageMoves::lasts_too_long(Step committed) const {
  if (!learned_ || committed.value <= learned_->value + delay_ + kStepsToLeave) return "";
  return fmt::format(
      "every move ends: {}; it has served both since step {}, and step {} is "
      "committed",
      move_text(*move_), learned_->value, committed.value);
}

std::string StageMoves::at_the_end(Step committed) const { return lasts_too_long(committed); }

MoveCounts StageMoves::counts() const {
  MoveCounts all = counts_;
  if (move_) ++all[static_cast<std::size_t>(MoveEnd::run_ended)];
  return all;
}

}  // namespace swarmpi
