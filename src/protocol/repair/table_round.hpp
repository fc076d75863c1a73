#pragma once
// Table rounds: after each change of the view all who live answer it with their tables, and the
// leader repairs what is missing in them. A round that makes no progress is begun again.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/reports.hpp"
#include "protocol/messages/tables.hpp"

namespace swarmpi {

/// When nothing has come for long, whatever the cause, tables are asked for: a peer that is silent
/// is suspected long before, so this is for a loss that nobody has noticed.
class ProgressDeadline {
 public:
  /// `patience_s`: of the first round. It doubles each time that nothing came of one, because a
  /// microbatch or a reduction may take longer. Where a round was needless the wait that it fell
  /// into may be twice as long from then on, up to kMostTimes this patience.
  ProgressDeadline(double patience_s, double now_s)
      : most_patience_s_(kMostTimes * patience_s),
        first_patience_s_(patience_s),
        patience_s_(patience_s),
        since_s_(now_s),
        progress_s_(now_s) {}

  void progress(double now_s) {
    const double waited_s = now_s - std::exchange(progress_s_, now_s);
    if (caused_round_) waited_in_round_s_ = std::max(waited_in_round_s_, waited_s);
    if (std::exchange(was_needless_, false)) wait_longer(waited_s);
    since_s_ = now_s;
    patience_s_ = first_patience_s_;
  }
  bool passed(double now_s) const { return now_s - since_s_ > patience_s_; }
  /// A round begins because the deadline has passed, or for another cause.
  void round_at_deadline() {
    patience_s_ *= 2;
    caused_round_ = true;
  }
  void round_for_another_cause() { caused_round_ = was_needless_ = false; }
  /// A table is here, or all are: time counts from now, with the patience as it is.
  void restart(double now_s) { since_s_ = now_s; }
  /// All is repaired; `was_needed`: something had to be done again. Whether the round was begun
  /// because the deadline had passed.
  bool round_ended(bool was_needed) {
    const double waited_s = std::exchange(waited_in_round_s_, 0);
    was_needless_ = caused_round_ && !was_needed;
    // What was waited for has come, while tables were awaited.
    if (waited_s > 0 && std::exchange(was_needless_, false)) wait_longer(waited_s);
    return std::exchange(caused_round_, false);
  }

 private:
  static constexpr double kMostTimes = 8;

  void wait_longer(double waited_s) {
    first_patience_s_ = std::clamp(2 * waited_s, first_patience_s_, most_patience_s_);
  }

  double most_patience_s_;
  double first_patience_s_;  // of a round that follows on progress
  double patience_s_;
  double since_s_;
  double progress_s_;             // the last time
  double waited_in_round_s_ = 0;  // the longest wait that has ended in the round under way
  bool caused_round_ = false;
  bool was_needless_ = false;  // the last round, and nothing has come since
};

class TableRound {
 public:
  /// What is held back if it comes after its sender's table: a repair is planned from the tables
  /// alone, for what is known of one peer but not yet of the next looks like a gap.
  using Late = std::variant<ReportMessage, ReducedMessage, ChunkRefused, UnableMessage>;

  /// `since_s`: when the first round's cause was heard.
  explicit TableRound(double since_s) : since_s_(since_s) {}

  /// Tables are awaited.
  bool gathering() const { return state_ == State::gathering; }
  /// A checkpoint is being looked up, to which all fall back.
  bool falling_back() const { return state_ == State::falling_back; }
  /// When the cause of the round was heard that is under way, or was last.
  double since_s() const { return since_s_; }
  /// "tables of peers 1 4", for messages about stalls.
  std::string waiting_for() const;

  /// The view has changed: what was gathered is of no use any more.
  void drop_tables(double now_s);
  /// Awaits the tables of all these.
  void gather(const View::Roles& members);
  /// A peer's table; false if it is not awaited. With the last one the round is no longer
  /// gathering.
  bool enter(const TableMessage& table, PeerId from);
  /// The tables of these are not awaited. Whether none is awaited any more, and one was.
  bool leave_out(const std::set<PeerId>& peers);
  const Tables& tables() const { return tables_; }
  /// The tables were not enough: a checkpoint is looked up.
  void fall_back();
  /// It is known.
  void end_fall_back() { state_ = State::settled; }
  /// All is repaired.
  void end() { tables_.clear(); }

  /// Whether the sender's table is in while others are awaited: what it sends now is held back.
  bool came_after_table(PeerId from) const { return gathering() && !awaited_.contains(from); }
  void hold_back(PeerId from, Late message) { late_.emplace_back(from, std::move(message)); }
  /// What was held back, in the order in which it came.
  std::vector<std::pair<PeerId, Late>> release() { return std::exchange(late_, {}); }

 private:
  enum class State : std::uint8_t { settled, gathering, falling_back };

  State state_ = State::settled;
  double since_s_;
  Tables tables_;
  std::set<PeerId> awaited_;
  std::vector<std::pair<PeerId, Late>> late_;
};

}  // namespace swarmpi
