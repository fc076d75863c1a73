#include "runtime/run_storage.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "runtime/assembly.hpp"

namespace swarmpi {

RunStorage::RunStorage(StoragePlan plan, JobExecutor& stages, const Clock& clock, Inbox& inbox)
    : plan_(std::move(plan)),
      stages_(stages),
      clock_(clock),
      inbox_(inbox),
      journal_folder_(journal_folder(plan_.run_file)),
      thread_(plan_.prepare_thread) {}

// After a failure nothing is stored any more: what was reported before stays true.
void RunStorage::later(std::function<Status()> task) {
  thread_.run([this, task = std::move(task)] {
    if (failed_) return;
    const Status status = task();
    if (status.ok()) return;
    failed_ = true;
    inbox_.post(StorageFailed{status});
  });
}

// Records come in bursts: one sync, behind the last of a burst, serves them all.
void RunStorage::take(StoreRecord action) {
  requested_ = action.number;
  perform_later(std::move(action));
  later([this] { return sync_records(); });
}

// The rows that earlier leaders of this run have written stay, and are not carried over once more.
// Steps are carried over last: where they are there, all other rows are.
Result<bool> RunStorage::continue_rows() {
  const Result<JournalContent> journal = read_journal(journal_folder_, plan_.first_term);
  if (!journal.ok()) return journal.status();
  const std::vector<StepRow>& rows = journal.value().history.steps;
  if (rows.empty() || rows.back().step < plan_.begin.from_step) return false;
  plan_.begin.from_step = rows.back().step;
  plan_.begin.carries_history = false;
  plan_.carried.reset();
  return true;
}

Status RunStorage::perform(const CreateTerm& action) {
  const std::optional<RunEnd> ended = read_end(journal_folder_);
  const bool counts = ended && ended->term == highest_term(journal_folder_);
  if (counts && ended->first_term >= plan_.first_term) {
    inbox_.post(TermCreated{action.term, false, EndMessage{ended->code, ended->why}});
    return {};
  }
  const Result<bool> follows = continue_rows();
  if (!follows.ok()) return follows.status();
  plan_.begin.term = action.term.value;
  term_over_ = false;
  Result<std::unique_ptr<JournalWriter>> created =
      JournalWriter::create(journal_folder_, plan_.begin);
  if (!created.ok()) return created.status();
  journal_ = std::move(created).value();
  if (journal_ && plan_.carried) {
    const auto append_all = [&](const auto& rows) {
      for (const auto& row : rows) {
        if (Status status = journal_->append(row); !status.ok()) return status;
      }
      return Status();
    };
    const History& carried = *plan_.carried;
    for (const Status& status :
         {append_all(carried.validation), append_all(carried.peers), append_all(carried.events),
          append_all(carried.throughput), append_all(carried.steps), journal_->sync()}) {
      if (!status.ok()) return status;
    }
  }
  // A run that is resumed is open again: the run file must not say that it has ended.
  if (journal_ && plan_.begin.from_step >= 0 && !follows.value()) {
    if (Status status = publish(false, "open"); !status.ok()) return status;
  }
  inbox_.post(TermCreated{action.term, journal_ != nullptr});
  return {};
}

Status RunStorage::perform(const StoreRecord& action) {
  if (term_over_) return {};
  Status status = journal_->append(action.row);
  if (status.ok()) appended_ = action.number;
  return status;
}

// A leader that was taken for dead may go on: what it stored would contradict the next leader's
// rows.
bool RunStorage::term_is_over() {
  if (term_over_) return true;
  const std::int64_t newest = highest_term(journal_folder_);
  if (newest <= plan_.begin.term) return false;
  term_over_ = true;
  inbox_.post(TermOver{Term(plan_.begin.term), Term(newest)});
  return true;
}

Status RunStorage::sync_records() {
  if (appended_ != requested_ || term_is_over()) return {};
  if (Status status = journal_->sync(); !status.ok()) return status;
  inbox_.post(RecordDurable{appended_});
  if (clock_.now_s() - published_s_ < plan_.publish_every_s) return {};
  return publish(false, "open");
}

Status RunStorage::perform(const StoreStage& action) {
  StageModel& stage = stages_.stage(action.stage);
  Result<StoredFile> file =
      write_stage_file(checkpoint_path(plan_.checkpoints, action.step.value), action.stage.value,
                       action.term.value, plan_.self.value, stage.state());
  if (!file.ok()) return file.status();
  inbox_.post(
      StageStored{action.step, action.stage, std::move(file).value(), stage.tensor_hashes()});
  return {};
}

Status RunStorage::perform(const StoreManifest& action) {
  if (term_is_over()) return {};
  const std::string folder = checkpoint_path(plan_.checkpoints, action.state.step);
  const Result<std::optional<MissingPart>> missing =
      find_missing_part(folder, action.files, plan_.part_patience_s);
  if (!missing.ok()) return missing.status();
  if (const std::optional<MissingPart>& part = missing.value()) {
    inbox_.post(CheckpointDropped{Step(action.state.step),
                                  StageId(static_cast<std::int32_t>(part->number)), part->why});
    return {};
  }
  const Result<JournalContent> journal = read_journal(journal_folder_);
  if (!journal.ok()) return journal.status();
  const CheckpointHead head{plan_.begin.origin, action.state};
  const History history = history_up_to(journal.value().history, action.state.step, plan_.delay);
  if (Status status = write_manifest(folder, head, history, action.files, plan_.begin.term);
      !status.ok()) {
    return status;
  }
  inbox_.post(CheckpointDurable{Step(action.state.step)});
  return prune_checkpoints(plan_.checkpoints, plan_.keep);
}

// The marks are written last: where they exist, the run file is complete.
Status RunStorage::perform(const StoreEnd& action) {
  if (term_is_over()) return {};
  if (action.code == ExitStatus::good) {
    if (Status status = publish(true, "valid"); !status.ok()) return status;
    if (Status status = mark_complete(journal_folder_, plan_.begin.term); !status.ok())
      return status;
    completed_ = true;
  }
  if (Status status = mark_ended(journal_folder_,
                                 {plan_.first_term, plan_.begin.term, action.code, action.why});
      !status.ok()) {
    return status;
  }
  inbox_.post(EndDurable{});
  return {};
}

Result<std::optional<Checkpoint>> RunStorage::newest_checkpoint() const {
  bool none_there = false;
  Result<Checkpoint> opened = Checkpoint::open(plan_.checkpoints, &none_there);
  if (!opened.ok() && none_there) {
    if (!plan_.resumed_from) return std::optional<Checkpoint>();
    opened = Checkpoint::open(*plan_.resumed_from);
  }
  if (!opened.ok()) return opened.status();
  const Status fits = opened.value().check_state(plan_.tensors, plan_.delay);
  if (!fits.ok()) return fits;
  return std::optional(std::move(opened).value());
}

Status RunStorage::leave_behind(const std::vector<DamagedCheckpoint>& damaged) {
  for (const DamagedCheckpoint& checkpoint : damaged) {
    if (Status status = set_aside(checkpoint.path); !status.ok()) return status;
    inbox_.post(CheckpointDamaged{Step(checkpoint.step), checkpoint.why});
  }
  return {};
}

Status RunStorage::perform(const LoadManifest&) {
  const Result<std::optional<Checkpoint>> newest = newest_checkpoint();
  if (!newest.ok()) return Status::stopped(newest.status().message());
  ManifestLoaded loaded;
  if (newest.value()) {
    if (Status status = leave_behind(newest.value()->passed_over()); !status.ok()) return status;
    loaded.checkpoint = RestartPoint{newest.value()->head().state, newest.value()->files()};
  }
  inbox_.post(std::move(loaded));
  return {};
}

// The one that the leader has found: a newer one that is damaged may lie beside it.
Result<Checkpoint> RunStorage::checkpoint_of(Step step) const {
  Result<Checkpoint> opened = Checkpoint::open(checkpoint_path(plan_.checkpoints, step.value));
  if (opened.ok() || !plan_.resumed_from) return opened;
  Result<Checkpoint> resumed = Checkpoint::open(*plan_.resumed_from);
  const bool is_it = resumed.ok() && resumed.value().head().state.step == step.value;
  return is_it ? std::move(resumed) : std::move(opened);
}

Status RunStorage::perform(const LoadStage& action) {
  StageModel& stage = stages_.room_for(action.stage);
  if (action.step.value < 0) {
    stage.initialize();
  } else {
    const Result<Checkpoint> checkpoint = checkpoint_of(action.step);
    const Status loaded =
        checkpoint.ok() ? load_stage(checkpoint.value(), stage) : checkpoint.status();
    if (!loaded.ok()) {
      return Status::stopped(
          fmt::format("going back to step {}: {}", action.step.value, loaded.message()));
    }
  }
  inbox_.post(StageLoaded{action.incarnation, action.stage});
  return {};
}

Status RunStorage::publish(bool complete, const std::string& verdict) {
  Result<JournalContent> journal = read_journal(journal_folder_);
  if (!journal.ok()) return journal.status();
  Status status = write_run_file(
      plan_.run_file, {plan_.begin.origin, complete, verdict, std::move(journal).value().history});
  published_s_ = clock_.now_s();
  return status;
}

Status RunStorage::close(const std::string& verdict) {
  Status status;
  thread_.drain();
  thread_.run([&] {
    const bool leads = journal_ && highest_term(journal_folder_) <= plan_.begin.term;
    if (leads && !completed_) status = publish(false, verdict);
  });
  thread_.drain();
  return status;
}

History history_up_to(const History& history, std::int64_t step, std::int64_t delay) {
  History kept;
  const auto copy = [](const auto& from, auto& to, const auto& wanted) {
    std::copy_if(from.begin(), from.end(), std::back_inserter(to), wanted);
  };
  const auto until = [&](const auto& row) { return row.step <= step; };
  copy(history.steps, kept.steps, until);
  copy(history.peers, kept.peers, until);
  copy(history.events, kept.events, until);
  // The weights after these steps are validated in steps that the resumed run makes again.
  copy(history.validation, kept.validation,
       [&](const ValidationRow& row) { return row.step <= step - delay; });
  const double until_s = kept.steps.empty() ? 0 : kept.steps.back().time_s;
  copy(history.throughput, kept.throughput,
       [&](const ThroughputRow& row) { return row.time_s <= until_s; });
  return kept;
}

}  // namespace swarmpi
