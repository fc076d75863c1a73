#pragma once
// The journal and the run file of a run in virtual time, in the same files and by the same writers
// as those of a real run.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/status.hpp"
#include "io/journal/journal.hpp"
#include "io/rows/row_thinning.hpp"
#include "simulation/virtual_disk.hpp"

namespace swarmpi {

/// Losses and gradient norms are NaN there, for nothing has learned, whatever the protocol was
/// given for them.
class RunJournal final : public JournalSink {
 public:
  /// `begin`: of the terms to come. `last_step`: a complete run has rows of all up to it.
  RunJournal(std::string run_file, JournalBegin begin, std::int64_t last_step);

  void term_created(Term term) override;
  void stored(Term term, const StoreRecord& record) override;
  void ended(Term term, const StoreEnd& end) override;
  /// The first error; after it nothing more is written.
  const Status& status() const { return status_; }
  /// What was stored so far can be read after a crash. Errors: stopped.
  Status sync();
  /// Writes the run file from the journal. `invalid`: why the run is not what it should be; "" if
  /// it is. Errors: stopped, failed.
  Status publish(bool complete, const std::string& invalid);

 private:
  JournalWriter& writer_of(Term term);
  void append(JournalWriter& writer, const Record& row);

  std::string run_file_;
  std::string folder_;
  JournalBegin begin_;
  std::int64_t last_step_;
  std::map<Term, std::unique_ptr<JournalWriter>> writers_;
  RowThinning thinning_;
  Status status_;
};

}  // namespace swarmpi
