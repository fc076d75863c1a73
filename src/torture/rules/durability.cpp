#include "torture/rules/durability.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "protocol/messages/commit.hpp"
#include "protocol/messages/record_port.hpp"

namespace swarmpi {
namespace {

// Rows of /steps and /validation, which a resumed run needs; others may be lost at the end of a
// run.
bool is_table_row(const StoreRecord& record) {
  return std::holds_alternative<StepRow>(record.row) ||
         std::holds_alternative<ValidationRow>(record.row);
}

}  // namespace

void Durability::stores(PeerId peer, const StoreRecord& record) {
  asked_[peer] += is_table_row(record);
}

void Durability::refused(PeerId peer) {
  read_journal();
  asked_[peer] = written_[peer];
}

void Durability::read_journal() {
  for (; journal_read_ < disk_.journal.size(); ++journal_read_) {
    const VirtualDisk::Entry& entry = disk_.journal[journal_read_];
    written_[entry.writer] += is_table_row(*entry.record);
    if (const auto* row = std::get_if<StepRow>(&entry.record->row)) rows_.insert(row->step);
  }
}

std::string Durability::announces(const CommitMessage& commit) {
  read_journal();
  for (std::int64_t row = resumed_from_.value + 1; row <= commit.written.value; ++row) {
    if (rows_.contains(row)) continue;
    return fmt::format("a row is durable before it counts as written: step {}", row);
  }
  const Step step = commit.checkpointed;
  if (step <= resumed_from_) return "";
  const bool stored = disk_.newest_ever >= step.value;
  if (stored) return "";
  return fmt::format("a checkpoint is durable before it counts: step {}", step.value);
}

std::string Durability::finishes(const Status& status, Step last_commit) {
  if (status.ok() && !disk_.complete()) {
    return "nobody finishes before completion is durable: finished";
  }
  if (status.code() != ExitStatus::stopped) return "";
  read_journal();
  const bool journaled = std::all_of(asked_.begin(), asked_.end(), [this](const auto& asked) {
    return written_[asked.first] >= asked.second;
  });
  const bool saved = last_commit == resumed_from_ ||
                     (disk_.newest() != nullptr && disk_.newest()->state.step >= last_commit.value);
  if (journaled && saved) return "";
  return "nobody stops before journal and checkpoint are durable: finished";
}

}  // namespace swarmpi
