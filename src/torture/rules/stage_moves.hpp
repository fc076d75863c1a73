#pragma once
// The moves of Algorithm 2, as the published views show them: one at a time, and each ends.

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "core/choices.hpp"
#include "protocol/membership/room.hpp"

namespace swarmpi {

/// How a move ended.
enum class MoveEnd : std::uint8_t {
  moved,
  gone,
  stayed,
  kept_both,
  gone_back,
  run_ended,
  taken_over  ///< no end: how often a move went on under another leader
};
constexpr auto names_of(MoveEnd) {
  return names({"moved", "gone", "stayed", "kept both", "gone back", "run ended", "taken over"});
}

/// How many moves ended how.
using MoveCounts = std::array<std::int64_t, kNamesOf<MoveEnd>.size()>;

class StageMoves {
 public:
  /// `needs` outlive it.
  explicit StageMoves(std::int64_t delay, const MemoryNeeds& needs = kNoNeeds)
      : delay_(delay), needs_(needs) {}

  /// The peer may leave the run.
  void ask_to_leave(PeerId peer) { may_leave_.insert(peer); }
  /// A leader publishes its next view. `committed`: the last step.
  std::string published(const View& view, Incarnation incarnation, Step committed);
  /// The run is over, and all peers have ended in good order.
  std::string at_the_end(Step committed) const;
  MoveCounts counts() const;

 private:
  static const MemoryNeeds kNoNeeds;

  std::string check(const View& view, const StageMove& move) const;
  /// Whether it has no room for both stages.
  bool leaves_first(const View& view, const StageMove& move) const;
  std::string check_end(const View& view, const StageMove& move, MoveEnd how) const;
  std::string lasts_too_long(Step committed) const;
  void ended(MoveEnd how) { ++counts_[static_cast<std::size_t>(how)]; }

  std::int64_t delay_;
  const MemoryNeeds& needs_;
  std::set<PeerId> may_leave_;
  Term term_;
  Incarnation incarnation_;
  std::optional<StageMove> move_;  // under way
  std::optional<Step> learned_;    // the step that was committed when it began to serve both
  MoveCounts counts_{};
};

}  // namespace swarmpi
