#pragma once
// What peers have answered to one question about each stage, and whether all its replicas have.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "core/ids.hpp"
#include "protocol/membership/view.hpp"

namespace swarmpi {

/// The replicas whose answer is missing are counted, not looked for at each event. The count
/// changes only where the set of answers does; after a change of the view it is taken anew.
template <class Value>
class StageAnswers {
 public:
  using ByPeer = std::map<PeerId, Value>;

  /// A later answer of the same peer takes the place of the one before.
  void enter(const View& view, StageId stage, PeerId from, Value value) {
    Stage& of = stages_[stage];
    const bool is_new = of.by_peer.insert_or_assign(from, std::move(value)).second;
    if (is_new && of.counted_in == view.revision() && view.serves(from, stage)) --of.missing;
  }
  /// The peer's answer about this stage, or about all, does not count any more.
  void forget(PeerId peer, std::optional<StageId> stage) {
    for (auto& [of, answers] : stages_) {
      if (stage && of != *stage) continue;
      if (answers.by_peer.erase(peer) > 0) answers.counted_in = kNever;
    }
  }

  /// No answer about this stage counts any more.
  void forget(StageId stage) { stages_.erase(stage); }

  bool has(StageId stage, PeerId peer) const { return of(stage).contains(peer); }
  /// Whether anybody has ever answered about the stage, and all who serve it have now.
  bool from_all(const View& view, StageId stage) const {
    const auto found = stages_.find(stage);
    if (found == stages_.end()) return false;
    const Stage& answers = found->second;
    if (answers.counted_in != view.revision()) {
      answers.missing = count_missing(view, stage);
      answers.counted_in = view.revision();
    }
    return answers.missing == 0;
  }
  /// The same for the stages 0 to `stages` - 1.
  bool from_all(const View& view, std::int64_t stages) const {
    for (std::int32_t s = 0; s < stages; ++s) {
      if (!from_all(view, StageId(s))) return false;
    }
    return true;
  }
  /// By peer; empty if nobody has answered.
  const ByPeer& of(StageId stage) const {
    static const ByPeer none;
    const auto found = stages_.find(stage);
    return found == stages_.end() ? none : found->second.by_peer;
  }

  /// Whether what was counted is what a look at all answers gives. For torture.
  bool counts_hold(const View& view) const {
    return std::all_of(stages_.begin(), stages_.end(), [&](const auto& entry) {
      const auto& [stage, answers] = entry;
      return answers.counted_in != view.revision() || answers.missing == count_missing(view, stage);
    });
  }

 private:
  static constexpr std::int64_t kNever = -1;

  struct Stage {
    ByPeer by_peer;
    mutable std::int64_t missing = 0;          // replicas without an answer
    mutable std::int64_t counted_in = kNever;  // the view's revision in which that was so
  };

  std::int64_t count_missing(const View& view, StageId stage) const {
    const ByPeer& answers = of(stage);
    const auto& replicas = view.replicas(stage);
    return std::count_if(replicas.begin(), replicas.end(),
                         [&](PeerId peer) { return !answers.contains(peer); });
  }

  std::map<StageId, Stage> stages_;
};

}  // namespace swarmpi
