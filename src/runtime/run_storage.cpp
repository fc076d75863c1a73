#include "runtime/run_storage.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "io/checkpoint/stored_rows.hpp"
#include "io/descriptor.hpp"
#include "io/files.hpp"
#include "io/hdf5/handle.hpp"
#include "io/hdf5/output.hpp"
#include "io/journal/follower.hpp"
#include "io/journal/term_proof.hpp"
#include "io/row_fields.hpp"
#include "io/scratch_file.hpp"
#include "io/temporary_file.hpp"
#include "protocol/membership/cpu_use.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/progress_port.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/term_port.hpp"
#include "protocol/step/restart_point.hpp"
#include "runtime/assembly.hpp"

namespace swarmpi {
namespace {

// Publishing takes longer as a run grows: this much of the time it may take.
constexpr double kPublishingShare = 0.01;
// How long rows are left in the journal before they are merged.
constexpr double kMergeEveryS = 1;
// How long rows wait for the end of a burst until they are synced within it.
constexpr double kSyncWithinS = 0.5;

}  // namespace

struct RunStorage::Rows {
  Rows(const std::string& folder, std::int64_t from_term)
      : journal(folder, scratch_path(folder), from_term), storer(journal.merge()) {}

  static std::string scratch_path(const std::string& folder) { return folder + "/rows"; }

  JournalFollower journal;
  RowStorer storer;
};

RunStorage::~RunStorage() = default;

RunStorage::RunStorage(StoragePlan plan, JobExecutor& stages, const Clock& clock, Inbox& inbox)
    : plan_(std::move(plan)),
      stages_(stages),
      clock_(clock),
      inbox_(inbox),
      journal_folder_(journal_folder(plan_.run_file)),
      resumed_step_(plan_.begin.from_step),
      run_({}),
      stages_lane_(plan_.prepare_thread) {}

// After a failure nothing is stored any more: what was reported before stays true.
void RunStorage::later(StorageLane& lane, const char* what, std::function<Status()> task,
                       std::int64_t actions) {
  lane.thread.run(
      [this, &lane, what, actions, given_up = lane.abandoned.load(), task = std::move(task)] {
        lane.calls.begin(what);
        const bool wanted = !failed_ && given_up == lane.abandoned;
        const Status status = wanted ? task() : Status();
        if (!status.ok() && !FileCalls::given_up()) {
          failed_ = true;
          post(StorageFailed{status});
        }
        lane.done += actions;
        lane.calls.end();
      });
}

void RunStorage::post(Event event) {
  if (!FileCalls::given_up()) inbox_.post(std::move(event));
}

LaneProgress RunStorage::progress(Lane which) const {
  const FileCalls::Progress progress = lane(which).calls.progress();
  return {lane(which).done, progress.calls, progress.running, lane(which).thread.cpu_s()};
}

void RunStorage::abandon(Lane which) {
  StorageLane& lane = which == Lane::run ? run_ : stages_lane_;
  ++lane.abandoned;
  lane.calls.give_up();
}

bool RunStorage::settle(double patience_s) {
  constexpr std::chrono::milliseconds kPause(5);
  const auto calls = [this] {
    return run_.calls.progress().calls + stages_lane_.calls.progress().calls;
  };
  const auto cpu_s = [this] { return run_.thread.cpu_s() + stages_lane_.thread.cpu_s(); };
  std::int64_t last_calls = calls();
  double last_cpu_s = cpu_s();
  double since_s = clock_.now_s();
  while (!run_.settled() || !stages_lane_.settled()) {
    const double over_s = clock_.now_s() - since_s;
    const std::int64_t now = calls();
    const bool returned = std::exchange(last_calls, now) != now;
    if (returned || computes(cpu_s() - last_cpu_s, over_s)) {
      last_cpu_s = cpu_s();
      since_s = clock_.now_s();
    } else if (over_s >= patience_s) {
      return false;
    }
    std::this_thread::sleep_for(kPause);
  }
  return run_.thread.idle() && stages_lane_.thread.idle();
}

// Records come in bursts: one sync, behind the last of a burst, serves them all.
void RunStorage::take(StoreRecord action) {
  requested_ = action.number;
  later(
      run_, "storing rows", [this, action = std::move(action)] { return perform(action); }, 0);
  later(
      run_, "syncing rows", [this] { return sync_records(); }, 1);
}

// The rows that earlier leaders of this run have written stay, and are not carried over once more.
// Steps are carried over last: where they are there, all other rows are. Only the ends of the
// newest files are read: a successor leads as soon in a long run as in a short one.
Result<bool> RunStorage::continue_rows() {
  const Result<JournalEnd> journal = read_journal_end(journal_folder_, plan_.first_term);
  if (!journal.ok()) return journal.status();
  // The hosts of those that have led before, and were started by swarm.spawn, come along.
  std::string& hosts = plan_.begin.origin.hosts;
  hosts = joined_words(hosts, journal.value().last.origin.hosts);
  const std::int64_t last_step = journal.value().last_step;
  if (last_step < 0 || last_step < plan_.begin.from_step) return false;
  plan_.begin.from_step = last_step;
  plan_.begin.carries_history = false;
  plan_.begin.must_agree = !plan_.is_mixed;
  plan_.carried.reset();
  return true;
}

Status RunStorage::carry_rows() {
  const Status carried =
      plan_.carried->for_each_row([this](const Record& row) { return journal_->append(row); });
  return carried.ok() ? journal_->sync() : Status::stopped(carried.message());
}

Status RunStorage::perform(const CreateTerm& action) {
  const std::optional<RunEnd> ended = read_end(journal_folder_);
  const bool counts = ended && ended->term == highest_term(journal_folder_);
  if (counts && ended->first_term >= plan_.first_term) {
    post(TermCreated{action.term, false,
                     std::make_shared<const EndMessage>(EndMessage{ended->code, ended->why})});
    return {};
  }
  const Result<bool> follows = continue_rows();
  if (!follows.ok()) return follows.status();
  plan_.begin.term = action.term.value;
  plan_.begin.first_term = plan_.first_term;
  term_over_ = false;
  proven_s_ = clock_.now_s();
  Result<std::unique_ptr<JournalWriter>> created =
      JournalWriter::create(journal_folder_, plan_.begin);
  if (!created.ok()) return created.status();
  journal_ = std::move(created).value();
  // A leader before this one may hang where it writes one of these, one of an earlier start too.
  // Not if this process hung meanwhile: then they may be those of a later leader.
  if (journal_ && !term_is_over()) {
    remove_temporary_files(plan_.run_file);
    for (const std::string& mark : mark_paths(journal_folder_)) remove_temporary_files(mark);
  }
  rows_.reset();
  if (journal_) remove_scratch_files();
  if (journal_ && plan_.carried) {
    if (Status carried = carry_rows(); !carried.ok()) return carried;
  }
  // A run that is resumed, or begins again, is open again: its run file must not say otherwise.
  const bool is_open_again = plan_.begin.from_step >= 0 || holds_something(plan_.run_file);
  if (journal_ && is_open_again && !follows.value()) {
    if (Status status = unless_over(publish(false, "open")); !status.ok()) return status;
  }
  post(TermCreated{action.term, journal_ != nullptr});
  return journal_ ? merge_beside() : Status();
}

// Those of leaders that were killed. Listed before this one has its own: with that it would die as
// slowly as if the file had no name.
void RunStorage::remove_scratch_files() {
  std::vector<std::string> files;
  for (const std::string& path :
       {Rows::scratch_path(journal_folder_), pages_beside(plan_.run_file)}) {
    const std::vector<std::string> here = ScratchFile::all_of(path);
    files.insert(files.end(), here.begin(), here.end());
  }
  if (files.empty()) return;
  const auto remove = [files = std::move(files)] {
    for (const std::string& file : files) (void)remove_file(file);
    return Status();
  };
  later(stages_lane_, "removing scratch files", remove, 0);
}

Status RunStorage::merge_beside() {
  constexpr double kForS = 0.02;
  if (!journal_ || term_over_) return {};
  if (!rows_) rows_ = new_rows();
  const Result<bool> all = rows_->journal.read_on(kForS);
  if (!all.ok()) rows_.reset();
  if (!all.ok()) return unless_over(all.status());
  merged_s_ = clock_.now_s();
  if (!all.value())
    later(
        run_, "merging rows", [this] { return merge_beside(); }, 0);
  return {};
}

Status RunStorage::perform(const StoreRecord& action) {
  if (term_over_) return {};
  const Record row = plan_.hollow != nullptr ? without_losses(action.row) : action.row;
  Status status = thinning_.keeps(row) ? journal_->append(row) : Status();
  for (const GoodputRow& goodput : action.goodput) {
    const std::optional<GoodputRow> kept = thinning_.thinned(goodput);
    if (kept && status.ok()) status = journal_->append(*kept);
  }
  if (status.ok()) appended_ = action.number;
  return status;
}

// A leader that was taken for dead may go on: what it stored would contradict the next leader's
// rows.
bool RunStorage::term_is_over() {
  if (!term_over_) note_later(highest_term(journal_folder_));
  // Where it cannot be proven for an error, what was to be written fails as well, and says so.
  if (!term_over_ && clock_.now_s() - proven_s_ >= plan_.suspect_after_s) (void)prove_term();
  return term_over_;
}

void RunStorage::note_later(std::int64_t term) {
  if (term <= plan_.begin.term) return;
  term_over_ = true;
  post(TermOver{Term(plan_.begin.term), Term(term)});
}

Status RunStorage::prove_term() {
  const double begun_s = clock_.now_s();
  const Result<std::optional<std::int64_t>> later = later_term(journal_folder_, plan_.begin.term);
  if (!later.ok()) return later.status();
  proven_s_ = begun_s;
  note_later(later.value().value_or(0));
  return {};
}

Status RunStorage::leads() {
  if (!term_over_) note_later(highest_term(journal_folder_));
  if (!term_over_) {
    if (Status proven = prove_term(); !proven.ok()) return proven;
  }
  return term_over_ ? Status::stopped("a later leader writes it") : Status();
}

Status RunStorage::unless_over(const Status& status) {
  return !status.ok() && term_is_over() ? Status() : status;
}

// A lane that is never idle has bursts without an end.
Status RunStorage::sync_records() {
  const bool in_a_burst = appended_ != requested_;
  if (in_a_burst && clock_.now_s() - synced_s_ < kSyncWithinS) return {};
  if (term_is_over()) return {};
  if (Status status = journal_->sync(); !status.ok()) return status;
  synced_s_ = clock_.now_s();
  if (term_is_over()) return {};
  post(RecordDurable{appended_});
  const double now_s = clock_.now_s();
  const double publish_every_s =
      std::max(plan_.publish_every_s, publish_took_s_ / kPublishingShare);
  if (now_s - published_s_ < publish_every_s) {
    return now_s - merged_s_ < kMergeEveryS ? Status() : merge_beside();
  }
  // The other lane may wait for a disk: rows do not wait for it.
  if (hdf5_is_in_use()) return {};
  return unless_over(publish(false, "open"));
}

Status RunStorage::store_hollow(const StoreStage& action) {
  Result<std::vector<std::uint64_t>> hashes =
      plan_.hollow->tensor_hashes(action.step, action.stage);
  if (!hashes.ok()) return hashes.status();
  const std::string folder = checkpoint_path(plan_.checkpoints, action.step.value);
  Result<StoredFile> file = write_stage_file(folder, action.stage.value, action.term.value,
                                             plan_.self.value, {}, plan_.hollow->backend());
  if (!file.ok()) return file.status();
  parts_.remove_lost(clock_.now_s());
  parts_.wrote(folder + "/" + file.value().name, clock_.now_s());
  post(StageStored{action.step, action.stage, std::move(file).value(), std::move(hashes).value()});
  return {};
}

Status RunStorage::perform(const StoreStage& action) {
  if (plan_.hollow != nullptr) return store_hollow(action);
  StageModel& stage = stages_.stage(action.stage);
  // Before the file is written: once this is given up, the state changes.
  if (FileCalls::given_up()) return {};
  std::vector<std::uint64_t> hashes = stage.tensor_hashes();
  if (FileCalls::given_up()) return {};
  const std::string folder = checkpoint_path(plan_.checkpoints, action.step.value);
  Result<StoredFile> file = write_stage_file(folder, action.stage.value, action.term.value,
                                             plan_.self.value, stage.state(), stage.backend());
  if (!file.ok()) return file.status();
  parts_.remove_lost(clock_.now_s());
  parts_.wrote(folder + "/" + file.value().name, clock_.now_s());
  post(StageStored{action.step, action.stage, std::move(file).value(), std::move(hashes)});
  return {};
}

// With a name of its own: several may be asked at a time.
Status RunStorage::perform(const StoreProbe&) {
  for (const std::string& folder : {journal_folder_, plan_.checkpoints}) {
    if (Status created = create_folder(folder); !created.ok()) return {};
    const std::string path = fmt::format("{}/probe.peer-{}", folder, plan_.self.value);
    const Status written = write_file_durably(path, "Can this folder be written?\n");
    if (!written.ok() || remove_file(path) != 0) return {};  // no answer: it cannot store
  }
  post(ProbeStored{});
  return {};
}

Status RunStorage::perform(const StoreManifest& action) {
  if (term_is_over()) return {};
  const std::string folder = checkpoint_path(plan_.checkpoints, action.state.step);
  const Result<std::optional<MissingPart>> missing =
      find_missing_part(folder, action.files, plan_.part_patience_s);
  if (!missing.ok()) return missing.status();
  if (const std::optional<MissingPart>& part = missing.value()) {
    post(CheckpointDropped{Step(action.state.step), static_cast<std::int64_t>(part->number),
                           part->why});
    // Nobody else removes it: while a host does not share the folder each checkpoint leaves its
    // parts. Not at once: the parts of the last one may be looked for again.
    const std::string before = std::exchange(dropped_, folder);
    if (!before.empty() && before != folder && leads().ok()) remove_dropped(before);
    return {};
  }
  if (Status status = write_checkpoint(folder, action); !status.ok()) return unless_over(status);
  post(CheckpointDurable{Step(action.state.step)});
  return unless_over(prune_checkpoints(plan_.checkpoints, plan_.keep, [this] { return leads(); }));
}

Status RunStorage::write_checkpoint(const std::string& folder, const StoreManifest& action) {
  const Result<Rows*> rows = rows_so_far();
  if (!rows.ok()) return rows.status();
  const auto stored = rows.value()->storer.store(folder, action.state.step, plan_.delay);
  if (!stored.ok()) rows_.reset();
  if (!stored.ok()) return stored.status();
  const CheckpointHead head{plan_.begin.origin, action.state};
  return write_manifest(folder, head, stored.value(), action.files, plan_.begin.term,
                        [this] { return leads(); });
}

// The marks are written last: where they exist, the run file is complete.
Status RunStorage::perform(const StoreEnd& action) {
  if (term_is_over()) return {};
  if (Status status = unless_over(store_last_rows(action)); !status.ok()) return status;
  const Status marked = mark_end(action);
  for (const std::string& path : plan_.shared_files) {
    if (marked.ok()) (void)remove_file(path);
  }
  if (marked.ok()) post(EndDurable{});
  return unless_over(marked);
}

Status RunStorage::store_last_rows(const StoreEnd& action) {
  std::vector<GoodputRow> rows;
  for (const GoodputRow& row : action.goodput) {
    if (const auto kept = thinning_.thinned(row)) rows.push_back(*kept);
  }
  for (const GoodputRow& row : thinning_.rest()) rows.push_back(row);
  if (rows.empty() || !journal_) return {};
  for (const GoodputRow& row : rows) {
    if (Status status = journal_->append(row); !status.ok()) return status;
  }
  return journal_->sync();
}

// A run that lacks rows ends so for all: a peer that would lead next finds the mark.
Status RunStorage::mark_end(const StoreEnd& action) {
  const auto ends = [this](ExitStatus code, const std::string& why) {
    return mark_ended(journal_folder_, {plan_.first_term, plan_.begin.term, code, why},
                      [this] { return leads(); });
  };
  if (action.code != ExitStatus::good) return ends(action.code, action.why);
  const Result<std::string> missing = missing_rows();
  if (!missing.ok()) return missing.status();
  if (!missing.value().empty()) {
    const Status why = Status::failed(fmt::format(
        "{} has no rows of steps {}: the run is not complete; this is a fault of a file system or "
        "a bug of SwarMPI",
        journal_folder_, missing.value()));
    Status status = publish(false, "invalid: " + why.message());
    if (status.ok()) status = ends(why.code(), why.message());
    return status.ok() ? why : status;
  }
  if (Status status = mark_complete_end(); !status.ok()) return status;
  return ends(action.code, action.why);
}

Status RunStorage::mark_complete_end() {
  const char* const verdict = plan_.hollow != nullptr ? kSimulatedVerdict : "valid";
  if (Status status = publish(true, verdict); !status.ok()) return status;
  const Status marked =
      mark_complete(journal_folder_, plan_.begin.term, [this] { return leads(); });
  completed_ = marked.ok();
  return marked;
}

Result<std::string> RunStorage::missing_rows() {
  const Result<Rows*> rows = rows_so_far();
  if (!rows.ok()) return rows.status();
  return missing_steps(rows.value()->journal.merge(), plan_.last_step);
}

bool RunStorage::is_of_this_run(const Checkpoint& checkpoint) const {
  const CheckpointHead& head = checkpoint.head();
  return head.fingerprint == plan_.begin.origin.fingerprint && head.state.step >= resumed_step_;
}

Result<std::optional<Checkpoint>> RunStorage::newest_checkpoint(
    const CheckpointProof& proof, std::vector<DamagedCheckpoint>& damaged) const {
  bool none_there = false;
  Result<Checkpoint> opened = Checkpoint::open(plan_.checkpoints, &none_there, &damaged, proof);
  if (opened.ok()) damaged = opened.value().passed_over();
  // Others may lie there: of a run under other rules, or from before what this one has resumed.
  const bool other = opened.ok() && !is_of_this_run(opened.value());
  const bool all_damaged = !opened.ok() && !damaged.empty();
  if (!plan_.resumed_from && (other || none_there)) return std::optional<Checkpoint>();
  if (plan_.resumed_from && (other || none_there || all_damaged)) {
    Result<Checkpoint> resumed = Checkpoint::open(*plan_.resumed_from, nullptr, nullptr, proof);
    if (resumed.ok() || !all_damaged) opened = std::move(resumed);
  }
  if (!opened.ok()) return opened.status();
  const Status fits =
      plan_.hollow != nullptr ? Status() : opened.value().check_state(plan_.tensors, plan_.delay);
  if (!fits.ok()) return fits;
  return std::optional(std::move(opened).value());
}

Status RunStorage::leave_behind(const std::vector<DamagedCheckpoint>& damaged) {
  for (const DamagedCheckpoint& checkpoint : damaged) {
    if (Status proven = leads(); !proven.ok()) return unless_over(proven);
    if (Status status = set_aside(checkpoint.path); !status.ok()) return status;
    post(CheckpointDamaged{Step(checkpoint.step), checkpoint.why});
  }
  return {};
}

Status RunStorage::perform(const LoadManifest& action) {
  std::vector<DamagedCheckpoint> damaged;
  const CheckpointProof proof{.shares = action.proves ? 1 : 0, .lists_all = false};
  const Result<std::optional<Checkpoint>> newest = newest_checkpoint(proof, damaged);
  if (!newest.ok()) return Status::stopped(newest.status().message());
  ManifestLoaded loaded;
  if (newest.value()) {
    if (Status status = leave_behind(damaged); !status.ok()) return status;
    loaded.checkpoint = RestartPoint{newest.value()->head().state, newest.value()->files()};
  }
  post(std::move(loaded));
  return {};
}

// The one that the leader has found: a newer one that is damaged may lie beside it.
Result<Checkpoint> RunStorage::checkpoint_of(Step step, const CheckpointProof& proof,
                                             std::vector<DamagedCheckpoint>& damaged) const {
  Result<Checkpoint> opened =
      Checkpoint::open(checkpoint_path(plan_.checkpoints, step.value), nullptr, &damaged, proof);
  if (opened.ok() || !plan_.resumed_from) return opened;
  std::vector<DamagedCheckpoint> before;
  Result<Checkpoint> resumed = Checkpoint::open(*plan_.resumed_from, nullptr, &before, proof);
  if (!resumed.ok() && damaged.empty() && !before.empty()) {
    damaged = std::move(before);
    return resumed;
  }
  const bool is_it = resumed.ok() && resumed.value().head().state.step == step.value;
  return is_it ? std::move(resumed) : std::move(opened);
}

// Where all have gone back once more while this waited for the disk, what it is to read may be
// gone.
Status RunStorage::perform(const LoadStage& action) {
  const auto is_overtaken = [&] { return action.incarnation.value < loads_for_; };
  StageLoaded answer{action.incarnation, action.stage};
  if (!is_overtaken()) {
    Result<StageLoaded> loaded = load(action);
    if (loaded.ok()) answer = std::move(loaded).value();
    if (!loaded.ok() && !is_overtaken()) {
      return Status::stopped(
          fmt::format("going back to step {}: {}", action.step.value, loaded.status().message()));
    }
  }
  post(std::move(answer));
  return {};
}

Result<StageLoaded> RunStorage::load_hollow(const LoadStage& action) {
  ResumeState state;
  state.step = action.step.value;
  const Status loaded = plan_.hollow->load(action.stage, state);
  if (!loaded.ok()) return loaded;
  return StageLoaded{action.incarnation, action.stage};
}

Result<StageLoaded> RunStorage::load(const LoadStage& action) {
  if (plan_.hollow != nullptr) return load_hollow(action);
  StageLoaded answer{action.incarnation, action.stage};
  if (action.step.value < 0) {
    StageModel* const stage = stages_.room_for(action.stage, action.ownership);
    answer.has_room = stage != nullptr;
    const Status status = stage != nullptr ? stage->initialize() : Status();
    return status.ok() ? Result<StageLoaded>(std::move(answer)) : status;
  }
  // As long as the cuts are the same its own file is all that is read; where each replica owns a
  // range, the weights are in all files.
  std::vector<DamagedCheckpoint> damaged;
  CheckpointProof proof;
  if (action.ownership.owners == 1) {
    proof = {.share = action.stage.value, .shares = std::ssize(action.files), .lists_all = false};
  }
  Result<Checkpoint> checkpoint = checkpoint_of(action.step, proof, damaged);
  StageModel* const stage =
      checkpoint.ok() ? stages_.room_for(action.stage, action.ownership) : nullptr;
  answer.has_room = !checkpoint.ok() || stage != nullptr;
  if (!answer.has_room) return answer;
  if (checkpoint.ok() && !checkpoint.value().lists(stage->state())) {
    checkpoint = checkpoint_of(action.step, {}, damaged);
  }
  if (!checkpoint.ok()) {
    // Its leader may have set it aside by now, when others found it damaged.
    const bool gone = is_set_aside(checkpoint_path(plan_.checkpoints, action.step.value));
    if (damaged.empty() && !gone) return checkpoint.status();
    answer.damage = gone ? "it was set aside as damaged" : damaged.front().why;
    return answer;
  }
  if (Status status = load_stage(checkpoint.value(), *stage); !status.ok()) return status;
  return answer;
}

// Of a run that began at step 0 earlier starts are no part.
std::unique_ptr<RunStorage::Rows> RunStorage::new_rows() const {
  return std::make_unique<Rows>(journal_folder_, resumed_step_ < 0 ? plan_.first_term : 0);
}

Result<RunStorage::Rows*> RunStorage::rows_so_far() {
  if (rows_ && rows_->journal.missed_rows()) rows_.reset();
  if (!rows_) rows_ = new_rows();
  const Result<bool> all = rows_->journal.read_on(std::numeric_limits<double>::infinity());
  if (!all.ok()) rows_.reset();
  if (!all.ok()) return all.status();
  merged_s_ = clock_.now_s();
  rows_->journal.merge().settle();
  return rows_.get();
}

Status RunStorage::publish(bool complete, const std::string& verdict) {
  const double begun_s = clock_.now_s();
  const Result<Rows*> rows = rows_so_far();
  if (!rows.ok()) return rows.status();
  const RunFileHead head{plan_.begin.origin, complete, verdict, plan_.fidelity};
  MergedRows merged(rows.value()->journal.merge());
  Status status = write_run_file(plan_.run_file, head, merged, [this] { return leads(); });
  if (!status.ok()) rows_.reset();
  published_s_ = clock_.now_s();
  publish_took_s_ = published_s_ - begun_s;
  return status;
}

std::optional<Status> RunStorage::close(const std::string& verdict, double patience_s) {
  const auto status = std::make_shared<Status>();
  run_.thread.run([this, status, verdict] {
    run_.calls.begin("closing the journal");
    if (journal_ && !completed_ && !term_is_over()) {
      *status = unless_over(publish(false, verdict));
    }
    run_.calls.end();
  });
  return settle(patience_s) ? std::optional(*status) : std::nullopt;
}

}  // namespace swarmpi
