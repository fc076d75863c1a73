#pragma once
// The durable log of a run: append-only files `term-N` in `RUN.h5.journal/`, one for each leader's
// term, with a checksum for each record. A torn tail is what a crash leaves, and is dropped; a
// broken record that was durable before is an error (see format.hpp).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "io/descriptor.hpp"
#include "io/files.hpp"

namespace swarmpi {

/// First record of every term file.
struct JournalBegin {
  std::int64_t term = 0;
  std::int64_t incarnation = 0;
  std::int64_t from_step = -1;  ///< rows after this step are made in this term; -1: a new run
  std::int64_t delay = 1;       ///< d: the weights after step t are validated in step t + d
  /// Its next records are the rows up to from_step, taken from the checkpoint.
  bool carries_history = false;
  /// Rows made again must equal earlier terms' (false where peers have kernels of their own).
  bool must_agree = true;
  RunOrigin origin;
  /// Of the start that this term belongs to: all terms of one start name the same. 0 in journals of
  /// earlier versions.
  std::int64_t first_term = 0;
};
SWARMPI_FIELDS(JournalBegin, term, incarnation, from_step, delay, carries_history, must_agree,
               origin, first_term);

/// Whether with `next` the run begins again at step 0: a start that died before its first
/// checkpoint left nothing to continue from. Rows of terms before do not count.
inline bool begins_again(const JournalBegin& next, std::int64_t first_term_before) {
  return next.from_step < 0 && next.first_term != first_term_before;
}

class JournalWriter {
 public:
  /// Creates `folder` if missing and `term-N` in it with O_EXCL, writes `begin`, syncs file and
  /// folder, and marks all earlier terms over (term_proof.hpp). Returns null if the term exists
  /// already.
  static Result<std::unique_ptr<JournalWriter>> create(const std::string& folder,
                                                       const JournalBegin& begin);
  /// Appends; not durable before sync(). After an error nothing further is accepted.
  Status append(const Record& record);
  Status sync();

 private:
  JournalWriter(Descriptor file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  Descriptor file_;
  std::string path_;
  std::uint64_t records_ = 0;  // written
  std::uint64_t synced_ = 0;   // of them: durable
  bool broken_ = false;
};

/// What the journal holds of a run.
struct JournalContent {
  JournalBegin last;      ///< of the newest term
  History history;        ///< merged: rows by step, those of the newest term; events in time order
  bool complete = false;  ///< the completion mark exists
  std::int64_t highest_term = 0;
};

/// Reads all terms and merges them. Rows of one step from two terms must agree in everything but
/// time_s, term and incarnation where must_agree says so; if they do not: `failed`, naming step and
/// field. No folder or no term in it: an empty content. Also `failed`: damaged. `bad_input`:
/// foreign, of another version. `from_term`: earlier ones are not looked at.
Result<JournalContent> read_journal(const std::string& folder, std::int64_t from_term = 0);

/// How far a journal's run is, by the ends of its newest files: this takes no longer where the run
/// is longer.
struct JournalEnd {
  JournalBegin last;            ///< of the newest term that has begun
  std::int64_t last_step = -1;  ///< of which the newest file with rows of steps has one; -1: none
  bool complete = false;
  std::int64_t highest_term = 0;
};
/// Errors: as read_journal(), as far as the ends show it.
Result<JournalEnd> read_journal_end(const std::string& folder, std::int64_t from_term = 0);
/// After which step the start began that the term of `last` belongs to: what its first term says. A
/// succession begins after the last row, and says nothing of that. -1: at step 0. In journals of
/// earlier versions the first term is not known, and that of `last` is asked. Errors: as above.
Result<std::int64_t> step_of_start(const std::string& folder, const JournalBegin& last);

/// The numbers of the folder's term files, ascending; and their paths.
std::vector<std::int64_t> terms_in(const std::string& folder);
std::string term_path(const std::string& folder, std::int64_t term);
/// That the file of `term` is that of another.
Status was_renamed(const std::string& folder, std::int64_t term, std::int64_t its_term);

/// Highest N of the `term-N` files, 0 if none or no folder.
std::int64_t highest_term(const std::string& folder);
/// The highest number of a term that anything in the folder names: term files, what the proof of a
/// term leaves, and the marks, whole or not. A later start takes a higher one: no mark of an
/// earlier start is about its terms.
std::int64_t highest_named_term(const std::string& folder);

/// Whether a living process holds the newest term open for writing. False where the file system
/// knows no locks.
bool is_being_written(const std::string& folder);

/// Creates the durable file `complete`, for scripts. `term`: of the leader that writes it; void
/// where there is a later one.
Status mark_complete(const std::string& folder, std::int64_t term,
                     const MayPublish& may_publish = {});

/// How a run ended, for processes of it that would go on because they do not know: the file
/// `ended`, written last of all. A later run has later terms.
struct RunEnd {
  std::int64_t first_term = 0;  ///< of the run
  std::int64_t term = 0;        ///< of the leader that wrote it; void where there is a later term
  ExitStatus code = ExitStatus::good;
  std::string why;
};
Status mark_ended(const std::string& folder, const RunEnd& end, const MayPublish& may_publish = {});
/// Of the newest run that has ended; nothing where none has, or the file is not SwarMPI's.
std::optional<RunEnd> read_end(const std::string& folder);

/// The journal's folder of a run file.
std::string journal_folder(const std::string& run_file);

/// The files beside the terms that a leader writes whole: the marks of the run's end.
std::vector<std::string> mark_paths(const std::string& folder);

}  // namespace swarmpi
