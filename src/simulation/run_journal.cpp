#include "simulation/run_journal.hpp"

#include <limits>
#include <utility>

#include "core/check.hpp"
#include "io/journal/follower.hpp"
#include "io/row_fields.hpp"
#include "io/run_file.hpp"
#include "protocol/messages/record_port.hpp"

namespace swarmpi {

RunJournal::RunJournal(std::string run_file, JournalBegin begin, std::int64_t last_step)
    : run_file_(std::move(run_file)),
      folder_(journal_folder(run_file_)),
      begin_(std::move(begin)),
      last_step_(last_step) {}

void RunJournal::term_created(Term term) {
  if (!status_.ok()) return;
  begin_.term = term.value;
  Result<std::unique_ptr<JournalWriter>> created = JournalWriter::create(folder_, begin_);
  if (!created.ok()) {
    status_ = created.status();
    return;
  }
  SWARMPI_CHECK(created.value() != nullptr, "the virtual disk creates each term once");
  writers_[term] = std::move(created).value();
}

JournalWriter& RunJournal::writer_of(Term term) {
  const auto writer = writers_.find(term);
  SWARMPI_CHECK(writer != writers_.end(), "a leader has created its term");
  return *writer->second;
}

void RunJournal::append(JournalWriter& writer, const Record& row) {
  if (status_.ok()) status_ = writer.append(row);
}

void RunJournal::stored(Term term, const StoreRecord& record) {
  if (!status_.ok()) return;
  JournalWriter& writer = writer_of(term);
  if (thinning_.keeps(record.row)) {
    const auto* row = std::get_if<StepRow>(&record.row);
    if (row != nullptr) begin_.from_step = row->step;
    append(writer, without_losses(record.row));
  }
  for (const GoodputRow& row : record.goodput) {
    if (const auto kept = thinning_.thinned(row)) append(writer, *kept);
  }
}

void RunJournal::ended(Term term, const StoreEnd& end) {
  if (!status_.ok()) return;
  JournalWriter& writer = writer_of(term);
  for (const GoodputRow& row : end.goodput) {
    if (const auto kept = thinning_.thinned(row)) append(writer, *kept);
  }
  for (const GoodputRow& row : thinning_.rest()) append(writer, row);
}

Status RunJournal::sync() {
  for (const auto& [term, writer] : writers_) {
    if (status_.ok()) status_ = writer->sync();
  }
  return status_;
}

Status RunJournal::publish(bool complete, const std::string& invalid) {
  if (writers_.empty()) return Status::failed("no peer has ever led");
  if (Status synced = sync(); !synced.ok()) return synced;
  JournalFollower journal(folder_, folder_ + "/rows");
  const Result<bool> all = journal.read_on(std::numeric_limits<double>::infinity());
  if (!all.ok()) return all.status();
  journal.merge().settle();
  const std::string missing = complete ? missing_steps(journal.merge(), last_step_) : "";
  if (!missing.empty()) return Status::failed(folder_ + " has no rows of steps " + missing);
  MergedRows rows(journal.merge());
  const std::string verdict = invalid.empty() ? kSimulatedVerdict : "invalid: " + invalid;
  const RunFileHead head{begin_.origin, complete, verdict, kSimulatedFidelity};
  if (Status written = write_run_file(run_file_, head, rows); !written.ok()) return written;
  return complete ? mark_complete(folder_, writers_.rbegin()->first.value) : Status();
}

}  // namespace swarmpi
