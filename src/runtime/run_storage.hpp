#pragma once
// Storage on files: journal, run file, checkpoints. A thread of its own does all of it, in order,
// so that neither the protocol nor the compute thread ever waits for a disk.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/journal/journal.hpp"
#include "io/run_file.hpp"
#include "runtime/inbox.hpp"
#include "runtime/job_executor.hpp"
#include "runtime/storage.hpp"
#include "runtime/task_thread.hpp"

namespace swarmpi {

struct StoragePlan {
  std::string run_file;
  std::string checkpoints;                  ///< folder
  std::optional<std::string> resumed_from;  ///< a checkpoint; maybe of another folder
  std::int64_t keep = 2;                    ///< checkpoints
  double publish_every_s = 30;
  std::int64_t delay = 1;      ///< d
  std::int64_t tensors = 0;    ///< of the whole model
  double part_patience_s = 3;  ///< how long a checkpoint's parts are looked for
  PeerId self;
  std::function<void()> prepare_thread;  ///< for the kernels of stages that are loaded
  std::int64_t first_term = 1;           ///< of this run
  JournalBegin begin;  ///< of the term to come; its number is set when the term is created
  std::optional<History> carried;  ///< rows to take over into a new journal
};

class RunStorage final : public Storage {
 public:
  /// `stages`: their state is saved while the protocol holds back the next update, and loaded while
  /// it does nothing with the stage.
  RunStorage(StoragePlan plan, JobExecutor& stages, const Clock& clock, Inbox& inbox);

  void take(CreateTerm action) override { perform_later(action); }
  void take(StoreRecord action) override;
  void take(StoreStage action) override { perform_later(action); }
  void take(StoreManifest action) override { perform_later(std::move(action)); }
  void take(StoreEnd action) override { perform_later(std::move(action)); }
  void take(LoadManifest action) override { perform_later(action); }
  void take(LoadStage action) override { perform_later(std::move(action)); }

  /// After all actions that were taken before: publishes the run file a last time with this
  /// verdict, unless it is complete.
  Status close(const std::string& verdict);

 private:
  void later(std::function<Status()> task);
  template <class Action>
  void perform_later(Action action) {
    later([this, action = std::move(action)] { return perform(action); });
  }
  Status perform(const CreateTerm& action);
  Status perform(const StoreRecord& action);
  Status perform(const StoreStage& action);
  Status perform(const StoreManifest& action);
  Status perform(const StoreEnd& action);
  Status perform(const LoadManifest& action);
  Status perform(const LoadStage& action);
  /// The newest complete checkpoint of this run that is whole; nothing where there is none at all.
  Result<std::optional<Checkpoint>> newest_checkpoint() const;
  Result<Checkpoint> checkpoint_of(Step step) const;
  /// Tells of the damaged ones that it was taken instead of, and sets them aside.
  Status leave_behind(const std::vector<DamagedCheckpoint>& damaged);
  /// Whether the term to come follows another of this run; then sets how it begins.
  Result<bool> continue_rows();
  /// Whether another peer has created a later term; the first time, the inbox gets a TermOver.
  bool term_is_over();
  Status sync_records();
  Status publish(bool complete, const std::string& verdict);

  StoragePlan plan_;
  JobExecutor& stages_;
  const Clock& clock_;
  Inbox& inbox_;
  std::string journal_folder_;

  std::atomic<std::int64_t> requested_ = 0;  // number of the last record that was given

  // All below belong to the storage thread.
  std::unique_ptr<JournalWriter> journal_;
  std::int64_t appended_ = 0;
  double published_s_ = 0;
  bool completed_ = false;
  bool failed_ = false;
  bool term_over_ = false;
  TaskThread thread_;  // last: its tasks use all of the above
};

/// The part of a run's history that a checkpoint after `step` carries: the rows that a resumed run
/// will not make again.
History history_up_to(const History& history, std::int64_t step, std::int64_t delay);

}  // namespace swarmpi
