#pragma once
// Seam 5, which may be missing: collectives, which add up the sums of a stage's replicas. Where
// there are none no id is made, and all goes point to point.

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "core/cover.hpp"
#include "core/status.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/observer.hpp"

namespace swarmpi {

/// Takes actions at once, on the protocol thread; what it has to say comes as events, by the peer's
/// inbox. See docs/protocol.md, "Collectives".
class CollectivesSeam {
 public:
  virtual ~CollectivesSeam() = default;
  virtual void take(MakeCollectiveId action) = 0;
  virtual void take(MakeCollective action) = 0;
  virtual void take(EnterCollective action) = 0;
  virtual void take(AbortCollective action) = 0;
};

/// What collectives have left in `out`, for the jobs that round it. Any thread may call.
class CollectiveResults {
 public:
  /// `out` of the stage holds what was entered for this seal in this view.
  void set(StageId stage, const ViewNumber& view, const SealId& seal, const Cover& cover) {
    const std::lock_guard lock(mutex_);
    results_[stage] = {view, seal, cover};
  }
  /// `out` of the stage is written to, from now on.
  void forget(StageId stage) {
    const std::lock_guard lock(mutex_);
    results_.erase(stage);
  }
  /// What is in it is over this; nothing: it holds something else.
  std::optional<Cover> find(StageId stage, const ViewNumber& view, const SealId& seal) const {
    const std::lock_guard lock(mutex_);
    const auto found = results_.find(stage);
    if (found == results_.end()) return std::nullopt;
    const Result& result = found->second;
    return result.view == view && result.seal == seal ? std::optional(result.cover) : std::nullopt;
  }

 private:
  struct Result {
    ViewNumber view;
    SealId seal;
    Cover cover;
  };

  mutable std::mutex mutex_;
  std::map<StageId, Result> results_;
};

/// In which steps a peer has rounded what a collective had added up.
class StepsByCollective final : public Observer {
 public:
  void asked(double, PeerId, const Action& action) override;
  bool contains(Step step) const { return steps_.contains(step); }
  std::size_t count() const { return steps_.size(); }

 private:
  std::set<Step> steps_;
};

}  // namespace swarmpi
