#pragma once
// The checkpoints that are being written: one replica of each stage is asked for its part, or all
// where each owns a range, and the manifest follows when all parts are durable.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/status.hpp"
#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/port_kinds.hpp"
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

  /// Whether a peer is better asked for its part of a stage than others, as far as is known.
  using Able = std::function<bool(PeerId, StageId)>;

  /// Whether another may be begun: where as many are being written as are kept, it would only wait
  /// behind them.
  bool has_room() const;
  /// A stage of which nobody is to be asked for the part of this step, if there is one: two
  /// replicas have shown that they cannot write it, or all that there are. `may`: who may be asked
  /// at all.
  std::optional<StageId> lacks_writer(Step step, const View& view, const Able& may) const;
  /// Begins a round: of each stage the first replica that may, and rather one that is able, is
  /// asked for its part. `hashes`: what the parts must hold. REQUIRES: no stage lacks a writer.
  Orders begin(const ResumeState& state, const StateHashes& hashes, const View& view,
               const Able& may, const Able& able, double now_s);
  /// The parts of this step have not come for long: who owes one is not asked again. If anybody
  /// does, nobody writes that checkpoint any more.
  void leave_out_the_late(Step step);
  /// The same of these peers, which are silent, without having waited for them: but only where
  /// another replica may be asked.
  void pass_over(Step step, const std::set<PeerId>& silent, const View& view, const Able& may);
  /// Nobody waits for checkpoints of earlier steps any more of which a part is missing.
  void forget_before(Step step);
  /// Whether the peer has not written its part of this step, and is not asked again.
  bool left_out(PeerId peer, Step step) const { return left_out_.contains({peer, step}); }
  /// Nobody writes the checkpoint of this step, nor is it owed. `why`: for people.
  void give_up(Step step, const std::string& why);
  /// After a change of the view: asks another replica for the parts that a peer which no longer
  /// serves the stage was to write.
  Orders repair(const View& view);
  /// The manifest to store, once all parts are durable; an error where a part is not the state that
  /// all replicas agreed on.
  Result<std::optional<StoreManifest>> stored(const StageStoredMessage& message, PeerId from);
  /// The checkpoint is complete. The seconds it took; none if it was not awaited.
  std::optional<double> durable(Step step, double now_s);
  /// A part that is not to be found.
  struct LostPart {
    StageId stage;
    PeerId writer;
  };
  /// The manifest's file of this number is not to be found: nobody writes that checkpoint any more.
  /// None if the checkpoint was not awaited. `why`: for people.
  std::optional<LostPart> dropped(Step step, std::int64_t file, const std::string& why);
  /// Why the checkpoint of this step was dropped, if it was, and none was dropped since.
  std::optional<std::string> why_dropped(Step step) const;
  /// Whether it was dropped once because a part was not found, so that another try may do better.
  bool worth_another_try(Step step) const;

  /// The oldest checkpoint that is being written.
  std::optional<Step> awaited() const;
  bool is_written(Step step) const { return rounds_.contains(step); }
  /// Whether the peer has still to write its part of the stage.
  bool awaits(PeerId peer, StageId stage) const;

 private:
  struct Part {
    StageId stage;
    PeerId asked;
    std::optional<StageStoredMessage> stored;
  };
  struct Round {
    ResumeState state;
    StateHashes hashes;
    double begun_s = 0;
    std::vector<Part> parts;  // by stage, then by owner

    bool is_whole() const;
  };

  const RunPlan* plan_;
  std::map<Step, Round> rounds_;
  /// Which of these peers are to write the stage's parts; none if a part can be had of nobody.
  std::vector<PeerId> writers_of(Step step, StageId stage, const View& view, const Able& may,
                                 const Able& able) const;
  Part* find_part(Round& round, StageId stage, PeerId from) const;
  /// An error where the stage's parts, as far as all are here, are not the state that all replicas
  /// agreed on.
  Status check(const Round& round, StageId stage) const;
  /// The replica that is to write; none if none can.
  std::optional<PeerId> writer_of(Step step, StageId stage, const View& view,
                                  const Able& able) const;

  /// The peer cannot write: another is asked in another round.
  void cannot_write(PeerId peer, StageId stage, Step step);

  std::set<std::pair<PeerId, Step>> left_out_;     // have not written their part, and are not asked
  std::map<std::pair<StageId, Step>, int> tried_;  // so many of these were waited for
  struct Dropped {
    Step step;
    std::string why;
    int lost_parts = 0;  // so often
    bool given_up = false;
  };
  std::optional<Dropped> dropped_;  // the last one
  bool owed_ = false;
};

}  // namespace swarmpi
