#include "protocol/repair/resend_plan.hpp"

#include <algorithm>

namespace swarmpi {
namespace {

/// Stages [first, last] that a microbatch must pass again; none (last = first - 1) where both
/// neighbours have it and only have to send again.
struct Gap {
  int first = 0;
  int last = 0;
};

class ResendPlanner {
 public:
  ResendPlanner(const MicrobatchState& state, const View& view)
      : state_(state), view_(view), stages_(static_cast<int>(state.stages.size())) {}

  std::vector<Resend> plan() {
    if (state_.microbatch.purpose == Purpose::validate) return plan_validation();
    find_gaps();
    std::vector<Resend> resends;
    for (const Gap& gap : merged()) resends.push_back(resend(gap));
    return resends;
  }

 private:
  /// Null where no live peer has it in this stage.
  const StageHolder* at(int stage) const {
    const auto& holder = state_.stages[static_cast<std::size_t>(stage)];
    return holder ? &*holder : nullptr;
  }
  bool serves(const std::optional<PeerId>& peer, int stage) const {
    return peer && view_.serves(*peer, StageId(stage));
  }
  /// The peer of this stage to which it is in flight: one was sent it, serves the stage, and its
  /// table does not show it yet. REQUIRES: nobody has it in this stage.
  std::optional<PeerId> in_flight_to(int stage) const {
    if (stage == 0) return std::nullopt;
    const StageHolder* below = at(stage - 1);
    const bool sent = below != nullptr && below->phase == Phase::passed_on;
    return sent && serves(below->sent_to, stage) ? below->sent_to : std::nullopt;
  }
  /// Whether a live peer has it in this stage, or will once a message in flight arrives.
  bool known(int stage) const {
    if (at(stage) != nullptr) return true;
    return in_flight_to(stage) && !at(stage - 1)->path_broken;
  }
  /// Whether the peer that has it in this stage will send it to the next by itself.
  bool sends_on(int stage) const {
    const StageHolder* own = at(stage);
    if (own == nullptr) return known(stage);
    return own->phase == Phase::to_forward && !own->path_broken;
  }
  /// Whether the peer of this stage waits for a path or a gradient that will not come by itself.
  bool stuck(int stage) const {
    const StageHolder* own = at(stage);
    if (own == nullptr || stage + 1 == stages_) return false;
    if (own->phase == Phase::to_forward) return own->path_broken;
    if (own->phase != Phase::passed_on) return false;
    if (!serves(own->sent_to, stage + 1)) return true;
    const StageHolder* next = at(stage + 1);
    if (next == nullptr) return own->path_broken;
    if (next->peer != *own->sent_to) return true;
    const bool redirected = own->planned_in && own->last.value == stage;
    if (redirected && !next->gives_gradient) return true;
    return own->path_broken && !next->active();
  }
  /// Whether an earlier repair, whose path is not broken, is on its way to this stage.
  bool under_repair(int stage) const {
    for (int below = stage - 1; below >= 0; --below) {
      const StageHolder* own = at(below);
      if (own == nullptr || !own->active()) continue;  // the repair passes through this stage
      const bool leads_here = own->planned_in && own->last.value >= stage && !own->path_broken;
      if (!leads_here || own->phase == Phase::to_backward) return false;
      if (own->phase == Phase::to_forward) return true;
      const StageHolder* next = at(below + 1);
      const bool on_its_way = next != nullptr && !next->active() &&
                              (!next->planned_in || *next->planned_in < *own->planned_in);
      return on_its_way && own->sent_to == next->peer;
    }
    return false;
  }
  bool gives_output(int stage) const {
    const StageHolder* own = at(stage);
    return own != nullptr && (own->keeps_output || stuck(stage));
  }
  bool gives_gradient(int stage) const {
    const StageHolder* own = at(stage);
    return own != nullptr && own->gives_gradient;
  }

  /// A gap where nobody has it and it will not come by itself, and an empty one behind each peer
  /// that is stuck.
  void find_gaps() {
    int below = -1;  // the last known stage
    for (int stage = 0; stage < stages_; ++stage) {
      if (known(stage)) {
        below = stage;
        if (stuck(stage)) gaps_.push_back(widened({stage + 1, stage}));
        continue;
      }
      const bool wanted = !state_.settled[static_cast<std::size_t>(stage)];
      const bool comes_by_itself = (below >= 0 && sends_on(below)) || under_repair(stage);
      if (wanted && !comes_by_itself) gaps_.push_back(widened({stage, stage}));
    }
  }
  /// Until the neighbours keep what they have to send.
  Gap widened(Gap gap) const {
    while (gap.last + 1 < stages_ && !gives_gradient(gap.last + 1)) ++gap.last;
    while (gap.first > 0 && !gives_output(gap.first - 1)) --gap.first;
    return gap;
  }
  /// Gaps that overlap or touch are one.
  std::vector<Gap> merged() {
    std::sort(gaps_.begin(), gaps_.end(),
              [](const Gap& a, const Gap& b) { return a.first < b.first; });
    std::vector<Gap> merged;
    for (const Gap& gap : gaps_) {
      if (merged.empty() || gap.first > merged.back().last + 1) {
        merged.push_back(gap);
      } else {
        merged.back().last = std::max(merged.back().last, gap.last);
      }
    }
    return merged;
  }

  Resend resend(const Gap& gap) const {
    Resend order;
    if (gap.first > 0) order.provider = StageId(gap.first - 1);
    order.path.planned_in = view_.number;
    order.path.last = StageId(gap.last);
    for (int stage = gap.first; stage <= std::min(gap.last + 1, stages_ - 1); ++stage) {
      const StageHolder* own = at(stage);
      const std::optional<PeerId> holder = own != nullptr ? own->peer : in_flight_to(stage);
      if (holder) order.path.holders[StageId(stage)] = *holder;
    }
    return order;
  }

  /// A validation microbatch only goes forward: a peer that has passed it on is done with it. It
  /// goes on from the last peer that keeps its output.
  std::vector<Resend> plan_validation() const {
    int top = stages_ - 1;
    while (top >= 0 && at(top) == nullptr) --top;
    if (top >= 0) {
      const StageHolder& last = *at(top);
      if (last.phase == Phase::to_forward || serves(last.sent_to, top + 1)) return {};
    }
    int first = std::min(top, stages_ - 2) + 1;
    while (first > 0 && !(at(first - 1) != nullptr && at(first - 1)->keeps_output)) --first;
    Resend order;
    if (first > 0) order.provider = StageId(first - 1);
    order.path = {view_.number, {}, StageId(stages_ - 1)};
    return {order};
  }

  const MicrobatchState& state_;
  const View& view_;
  int stages_;
  std::vector<Gap> gaps_;
};

}  // namespace

std::vector<Resend> plan_resends(const MicrobatchState& state, const View& view) {
  return ResendPlanner(state, view).plan();
}

}  // namespace swarmpi
