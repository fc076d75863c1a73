#pragma once
// Storage on files: journal, run file, checkpoints. Threads of its own do all of it, one for each
// lane, in order, so that neither the protocol nor the compute thread ever waits for a disk, nor a
// leader's rows while it writes its own part of a checkpoint. They do wait, for `part_patience_s`
// at most, while it looks for the parts of others.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/checkpoint/own_parts.hpp"
#include "io/file_calls.hpp"
#include "io/journal/journal.hpp"
#include "io/rows/row_thinning.hpp"
#include "io/run_file.hpp"
#include "protocol/messages/progress_port.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/term_port.hpp"
#include "runtime/hollow_stages.hpp"
#include "runtime/inbox.hpp"
#include "runtime/job_executor.hpp"
#include "runtime/storage.hpp"
#include "runtime/task_thread.hpp"

namespace swarmpi {

struct StoragePlan {
  std::string run_file;
  std::string checkpoints;  ///< folder
  /// That newcomers look for, removed with the run's end; see commands/train/shared_folders.hpp.
  std::vector<std::string> shared_files;
  std::optional<std::string> resumed_from;  ///< a checkpoint; maybe of another folder
  std::int64_t keep = 2;                    ///< checkpoints
  double publish_every_s = 30;
  double suspect_after_s = 3;  ///< a peer that was silent for so long may have a successor
  std::int64_t delay = 1;      ///< d
  std::int64_t tensors = 0;    ///< of the whole model
  double part_patience_s = 3;  ///< how long a checkpoint's parts are looked for
  PeerId self;
  std::function<void()> prepare_thread;  ///< for the kernels of stages that are loaded
  std::int64_t first_term = 1;           ///< of this start
  std::int64_t last_step = 0;            ///< train.steps: a complete run has rows of all up to it
  /// Whether steps that are made again may come out otherwise: peers compute with other kernels.
  bool is_mixed = false;
  JournalBegin begin;  ///< of the term to come; its numbers are set when the term is created
  std::string fidelity = "real";   ///< compute.fidelity
  HollowStages* hollow = nullptr;  ///< where the peer computes nothing; outlives the storage
  /// Whose rows are to be taken over into a new journal.
  std::optional<Checkpoint> carried;
};

class RunStorage final : public Storage {
 public:
  /// `stages`: their state is saved while the protocol holds back the next update, and loaded while
  /// it does nothing with the stage.
  RunStorage(StoragePlan plan, JobExecutor& stages, const Clock& clock, Inbox& inbox);
  ~RunStorage() override;

  void take(CreateTerm action) override { perform_later(run_, "creating a term", action); }
  void take(StoreRecord action) override;
  void take(StoreStage action) override { perform_later(stages_lane_, "storing a stage", action); }
  void take(StoreManifest action) override {
    perform_later(run_, "storing a manifest", std::move(action));
  }
  void take(StoreEnd action) override {
    perform_later(run_, "marking the run's end", std::move(action));
  }
  void take(LoadManifest action) override {
    perform_later(run_, "looking for checkpoints", action);
  }
  void take(LoadStage action) override {
    loads_for_ = action.incarnation.value;
    perform_later(stages_lane_, "loading a stage", std::move(action));
  }
  void take(StoreProbe action) override { perform_later(run_, "storing a probe", action); }
  LaneProgress progress(Lane lane) const override;
  void abandon(Lane lane) override;

  /// Waits for all that was taken, as long as it comes on: false where no call has returned for
  /// `patience_s`, or a call that was given up still has not. Then this must not be destroyed.
  bool settle(double patience_s);
  /// Publishes the run file a last time with this verdict, unless it is complete. Nothing where
  /// that hangs, as settle().
  std::optional<Status> close(const std::string& verdict, double patience_s);

 private:
  /// One lane: a thread, and what it does.
  struct StorageLane {
    explicit StorageLane(const std::function<void()>& prepare) : thread(prepare) {}

    FileCalls calls;
    std::atomic<std::int64_t> abandoned = 0;  // how often: earlier tasks are not begun
    std::atomic<std::int64_t> done = 0;       // actions
    mutable TaskThread thread;                // last: its tasks use all of the above

    /// Whether it has nothing to do, or only waits for a call that was given up.
    bool settled() const { return thread.idle() || calls.progress().given_up; }
  };

  /// `actions`: how many are done with this task.
  void later(StorageLane& lane, const char* what, std::function<Status()> task,
             std::int64_t actions);
  template <class Action>
  void perform_later(StorageLane& lane, const char* what, Action action) {
    later(
        lane, what, [this, action = std::move(action)] { return perform(action); }, 1);
  }
  /// From a lane: unless the task that runs there was given up.
  void post(Event event);
  const StorageLane& lane(Lane lane) const { return lane == Lane::run ? run_ : stages_lane_; }
  Status perform(const CreateTerm& action);
  Status perform(const StoreRecord& action);
  Status perform(const StoreStage& action);
  Status perform(const StoreManifest& action);
  Status perform(const StoreEnd& action);
  Status perform(const LoadManifest& action);
  Status perform(const LoadStage& action);
  /// The answer. Errors: it could not be loaded, for another reason than those that this names.
  Result<StageLoaded> load(const LoadStage& action);
  Status perform(const StoreProbe& action);
  /// The newest complete checkpoint of this run that is whole; nothing where there is none at all.
  /// `damaged` receives newer ones that are not whole, as far as `proof` looks.
  Result<std::optional<Checkpoint>> newest_checkpoint(
      const CheckpointProof& proof, std::vector<DamagedCheckpoint>& damaged) const;
  /// `damaged` receives it, where there is one but it is not whole, as far as `proof` looks.
  Result<Checkpoint> checkpoint_of(Step step, const CheckpointProof& proof,
                                   std::vector<DamagedCheckpoint>& damaged) const;
  /// Made under the same rules, and not before what this run was resumed from.
  bool is_of_this_run(const Checkpoint& checkpoint) const;
  /// Tells of the damaged ones that it was taken instead of, and sets them aside.
  Status leave_behind(const std::vector<DamagedCheckpoint>& damaged);
  /// Whether the term to come follows another of this run; then sets how it begins.
  Result<bool> continue_rows();
  /// Whether another peer has created a later term, as far as it is seen; the first time, the inbox
  /// gets a TermOver. A listing may be old, so a proof that is not newer than `suspect_after_s` is
  /// asked for.
  bool term_is_over();
  /// ok where this peer's term is proven to be the newest now; else why nothing may be replaced or
  /// removed.
  Status leads();
  Status prove_term();
  /// In the other lane, for freeing a large file takes long.
  void remove_scratch_files();
  void note_later(std::int64_t term);
  /// The outcome of storing something: nothing has failed where the term was over by then.
  Status unless_over(const Status& status);
  Status carry_rows();
  Status sync_records();
  /// What follows the journal, from files alone. Where earlier terms have got rows since, it is
  /// made anew.
  struct Rows;
  std::unique_ptr<Rows> new_rows() const;
  Result<Rows*> rows_so_far();
  /// Reads the journal on for a moment, beside the work, until it is all read.
  Status merge_beside();
  Status write_checkpoint(const std::string& folder, const StoreManifest& action);
  /// A part of a checkpoint that holds no tensors.
  Status store_hollow(const StoreStage& action);
  Result<StageLoaded> load_hollow(const LoadStage& action);
  Status publish(bool complete, const std::string& verdict);
  /// The rows that come with it, and those that were left out.
  Status store_last_rows(const StoreEnd& action);
  Status mark_end(const StoreEnd& action);
  Status mark_complete_end();
  /// Which steps up to the last have no row; "" if all have.
  Result<std::string> missing_rows();

  StoragePlan plan_;
  JobExecutor& stages_;
  const Clock& clock_;
  Inbox& inbox_;
  std::string journal_folder_;
  std::int64_t resumed_step_;  // from which this run began

  std::atomic<std::int64_t> requested_ = 0;  // number of the last record that was given

  std::atomic<bool> failed_ = false;
  std::atomic<std::int64_t> loads_for_ = 0;  // the newest incarnation that a stage was asked for

  // All below belong to the thread of lane `run`.
  std::unique_ptr<JournalWriter> journal_;
  std::int64_t appended_ = 0;
  double synced_s_ = 0;  // when the rows were, the last time
  double published_s_ = 0;
  double publish_took_s_ = 0;
  double merged_s_ = 0;         // when the journal was read on
  std::unique_ptr<Rows> rows_;  // nothing until they are wanted
  RowThinning thinning_;
  bool completed_ = false;
  bool term_over_ = false;
  double proven_s_ = 0;  // when the last proof began that the term is not over
  std::string dropped_;  // folder of the last checkpoint that lacked a part

  OwnParts parts_;  // belongs to the thread of the other lane

  StorageLane run_, stages_lane_;  // last: their tasks use all of the above
};

}  // namespace swarmpi
