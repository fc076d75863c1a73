#pragma once
// What a person may mean by the path of a run: its file, its journal, a checkpoint, or the folder
// that it stands in.

#include <memory>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "io/run_file.hpp"

namespace swarmpi {

/// The rows of a run, from wherever they were found.
class NamedRun {
 public:
  /// `path`: a run file; its journal, which has rows that the run file does not have yet; a
  /// checkpoint or a folder of them; or a folder with one run, whose journal is taken where that
  /// has not ended. Errors: bad_input, saying what there is instead.
  static Result<NamedRun> open(const std::string& path);

  const RunFileHead& head() const { return reader_ ? reader_->head() : stored_->head; }
  TableRows& rows() { return reader_ ? reader_->rows() : stored_->rows; }
  /// Of a run file some rows may be unreadable: to be asked after rows.
  Status status() const { return reader_ ? reader_->status() : Status(); }
  /// Whether there are rows of its peers: a checkpoint has none.
  bool has_peers() const { return about_.empty(); }
  /// Lines that say which checkpoint it is, with line ends; "" of other runs.
  const std::string& about() const { return about_; }

 private:
  /// A run in memory.
  struct Stored {
    RunFileHead head;
    History history;
    HistoryRows rows{history};
  };

  static Result<NamedRun> open_file(const std::string& path);
  static Result<NamedRun> open_journal(const std::string& path);
  static Result<NamedRun> open_checkpoint(const std::string& path);
  static Result<NamedRun> open_folder(const std::string& path);

  std::unique_ptr<RunFileReader> reader_;
  std::unique_ptr<Stored> stored_;
  std::string about_;
};

/// The runs in the folders that are in `path`, sorted, where it holds runs in no other way, as the
/// folder of a sweep does; else `path` itself.
std::vector<std::string> runs_below(const std::string& path);

}  // namespace swarmpi
