#pragma once
// For tests of checkpoints: rows that are in memory, stored.

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "io/checkpoint/checkpoint.hpp"
#include "io/checkpoint/stored_rows.hpp"
#include "io/row_fields.hpp"

namespace swarmpi {

/// As the journal of a run with this history would be; also the rows of /peers, which a checkpoint
/// leaves out.
inline void add_rows(JournalMerge& merge, const History& history) {
  for_each_table(history, [&merge](const char*, const auto& rows) {
    for (const auto& row : rows) EXPECT_TRUE(merge.add(row).ok());
  });
}

/// All of it, whatever its steps.
inline std::vector<StoredFile> stored_rows(const std::string& checkpoint, const History& history) {
  JournalMerge merge;
  add_rows(merge, history);
  const std::int64_t last = history.steps.empty() ? -1 : history.steps.back().step;
  const auto stored = RowStorer(merge).store(checkpoint, last, 0);
  EXPECT_TRUE(stored.ok()) << stored.status().message();
  return stored.ok() ? stored.value() : std::vector<StoredFile>();
}

inline History history_of(const Checkpoint& checkpoint) {
  JournalMerge merge;
  const Status read =
      checkpoint.for_each_row([&merge](const Record& record) { return merge.add(record); });
  EXPECT_TRUE(read.ok()) << read.message();
  return merge.history();
}

}  // namespace swarmpi
