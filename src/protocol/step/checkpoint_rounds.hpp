#pragma once
// The checkpoints that are being written: one replica of each stage is asked for its part, and the
// manifest follows when all parts are durable.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/status.hpp"
#include "protocol/messages/ports.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/agreement.hpp"

namespace swarmpi {

class CheckpointRounds {
 public:
  /// Whom to ask for which part.
  using Orders = std::vector<std::pair<PeerId, CheckpointMessage>>;

  explicit CheckpointRounds(const RunPlan& plan) : plan_(&plan) {}

  /// A checkpoint is owed from the step on where one is due, until one is asked for. One that
  /// cannot be made any more is owed again.
  void passed(Step step) { owed_ = owed_ || plan_->checkpoint_due(step); }
  void owe() { owed_ = true; }
  bool owed() const { return owed_; }

  /// Begins a round: the first replica of each stage is asked for its part. `hashes`: what the
  /// parts must hold.
  Orders begin(const ResumeState& state, const StateHashes& hashes, const View& view, double now_s);
  /// After a change of the view: asks another replica for the parts that a peer which no longer
  /// serves the stage was to write.
  Orders repair(const View& view);
  /// The manifest to store, once all parts are durable; an error where a part is not the state that
  /// all replicas agreed on.
  Result<std::optional<StoreManifest>> stored(const StageStoredMessage& part, PeerId from);
  /// The checkpoint is complete. The seconds it took; none if it was not awaited.
  std::optional<double> durable(Step step, double now_s);
  /// The part of this stage is not to be found: nobody writes that checkpoint any more. The peer
  /// that wrote the part; none if the checkpoint was not awaited. `why`: for people.
  std::optional<PeerId> dropped(Step step, StageId stage, const std::string& why);
  /// Why the checkpoint of this step was dropped, if it was, and none was dropped since.
  std::optional<std::string> why_dropped(Step step) const;

  /// The oldest checkpoint that is being written.
  std::optional<Step> awaited() const;
  bool is_written(Step step) const { return rounds_.contains(step); }
  /// Whether the peer has still to write its part of the stage.
  bool awaits(PeerId peer, StageId stage) const;

 private:
  struct Round {
    ResumeState state;
    StateHashes hashes;
    double begun_s = 0;
    std::map<StageId, PeerId> asked;
    std::map<StageId, StoredFile> files;
  };

  const RunPlan* plan_;
  std::map<Step, Round> rounds_;
  std::optional<std::pair<Step, std::string>> dropped_;  // the last one
  bool owed_ = false;
};

}  // namespace swarmpi
