#include "io/checkpoint/stored_rows.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>

#include "io/checkpoint/test_support.hpp"
#include "io/files.hpp"
#include "io/test_support.hpp"

namespace swarmpi::stored_rows_test {
namespace {

constexpr std::size_t kRows = 10;  // of a segment

class StoredRowsTest : public testing::Test {
 protected:
  void add_steps(std::int64_t from, std::int64_t to, double loss_of_term = 0) {
    for (std::int64_t step = from; step <= to; ++step) {
      StepRow row = step_row(step);
      row.term = static_cast<std::int64_t>(loss_of_term);
      ASSERT_TRUE(merge_.add(ValidationRow{step - 1, 2.5, row.time_s}).ok());
      ASSERT_TRUE(merge_.add(row).ok());
      ASSERT_TRUE(merge_.add(PeerRow{step, 0, 0}).ok());
      ASSERT_TRUE(merge_.add(ThroughputRow{row.time_s, 1, 1}).ok());
      ASSERT_TRUE(merge_.add(EventRow{row.time_s, step, EventKind::commit, 0, 0, 0, ""}).ok());
    }
  }
  void make(std::int64_t step, RowStorer& storer) {
    const std::string path = checkpoint_path(folder_.path(), step);
    const auto rows = storer.store(path, step, 1);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    CheckpointHead head;
    head.state.step = step;
    ASSERT_TRUE(write_manifest(path, head, rows.value(), {}, 1).ok());
  }
  Checkpoint opened(std::int64_t step) {
    return Checkpoint::open(checkpoint_path(folder_.path(), step)).value();
  }
  /// Of the segments of a checkpoint: how many names each has.
  std::map<std::string, int> names_of(std::int64_t step) {
    std::map<std::string, int> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(checkpoint_path(folder_.path(), step))) {
      struct stat found {};
      if (!is_segment_name(entry.path().filename().string())) continue;
      if (::stat(entry.path().c_str(), &found) == 0) {
        names[entry.path().filename().string()] = static_cast<int>(found.st_nlink);
      }
    }
    return names;
  }

  TestFolder folder_;
  JournalMerge merge_{folder_.path()};
};

TEST_F(StoredRowsTest, WhatBelongsToACheckpointComesBack) {
  add_steps(0, 57);
  RowStorer storer(merge_, kRows);
  make(44, storer);
  const History history = history_of(opened(44));
  EXPECT_EQ(history.steps.size(), 45u);
  EXPECT_EQ(history.validation.size(), 45u) << "of steps -1 to 43: 44 is validated in step 45";
  EXPECT_EQ(history.events.size(), 45u);
  EXPECT_EQ(history.throughput.size(), 45u);
  EXPECT_TRUE(history.peers.empty());
  for (std::size_t i = 0; i < history.steps.size(); ++i) {
    EXPECT_EQ(history.steps[i].step, static_cast<std::int64_t>(i));
  }
}

TEST_F(StoredRowsTest, OfAnEventOfALaterStepThatCameSoonerNothingIsStored) {
  add_steps(0, 30);
  ASSERT_TRUE(merge_.add(EventRow{1.0, 29, EventKind::kill, 5, 0, 0, ""}).ok());
  RowStorer storer(merge_, kRows);
  make(20, storer);
  EXPECT_EQ(history_of(opened(20)).events.size(), 21u);
  make(29, storer);
  const History history = history_of(opened(29));
  EXPECT_EQ(history.events.size(), 31u);
  EXPECT_EQ(history.events.at(5).kind, EventKind::kill);
}

TEST_F(StoredRowsTest, SegmentsAreWrittenOnceAndSharedByAllThatHaveThem) {
  add_steps(0, 57);
  RowStorer storer(merge_, kRows);
  make(39, storer);
  for (const auto& [name, count] : names_of(39)) EXPECT_EQ(count, 1) << name;
  make(57, storer);
  int shared = 0;
  for (const auto& [name, count] : names_of(39)) shared += count == 2 ? 1 : 0;
  EXPECT_EQ(shared, 16) << "four of each table";
  // Another leader knows nothing of them.
  RowStorer successor(merge_, kRows);
  add_steps(58, 58);
  make(58, successor);
  shared = 0;
  for (const auto& [name, count] : names_of(57)) shared += names_of(58).contains(name) ? 1 : 0;
  EXPECT_EQ(shared, 20) << "five of each table";
  // The older ones go, and the newest keeps what it names.
  ASSERT_TRUE(prune_checkpoints(folder_.path(), 1).ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "step-39"));
  EXPECT_EQ(history_of(opened(58)).steps.size(), 59u);
}

TEST_F(StoredRowsTest, WhatIsMadeAgainWithOtherTimesIsStoredAnew) {
  add_steps(0, 45, 1);
  RowStorer storer(merge_, kRows);
  make(45, storer);
  add_steps(26, 45, 2);  // the run has gone back to step 25
  make(46, storer);
  const auto before = names_of(45), now = names_of(46);
  int kept = 0;
  for (const auto& [name, count] : now) {
    kept += name.rfind("rows-steps-", 0) == 0 && before.contains(name) ? 1 : 0;
  }
  EXPECT_EQ(kept, 2) << "up to step 19";
  const History history = history_of(opened(46));
  EXPECT_EQ(history.steps.at(25).term, 1);
  EXPECT_EQ(history.steps.at(26).term, 2);
}

TEST_F(StoredRowsTest, ASegmentThatIsDamagedIsNamedAndTheStateIsWhole) {
  add_steps(0, 30);
  RowStorer storer(merge_, kRows);
  make(30, storer);
  const std::string name = names_of(30).begin()->first;
  const std::string path = folder_ / ("step-30/" + name);
  std::string bytes = read_file(path).value();
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(write_file_durably(path, bytes).ok());
  const Checkpoint checkpoint = opened(30);
  const Status status = checkpoint.for_each_row([](const Record&) { return Status(); });
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
}

// By the bytes of the new leader's own rows: it has not looked at those of the others.
TEST_F(StoredRowsTest, ANewLeaderTakesTheSegmentsOfTheLastCheckpoint) {
  add_steps(0, 57, 1);
  RowStorer storer(merge_, kRows);
  make(57, storer);
  JournalMerge other(folder_.path());
  for (std::int64_t step = 0; step <= 59; ++step) {
    StepRow row = step_row(step);
    row.term = step < 45 ? 2 : 1;  // the last row of the last full segment is the same
    ASSERT_TRUE(other.add(row).ok());
  }
  RowStorer successor(other, kRows);
  make(59, successor);
  const History history = history_of(opened(59));
  ASSERT_EQ(history.steps.size(), 60u);
  EXPECT_EQ(history.steps.at(30).term, 1) << "as the checkpoint before has it";
}

TEST_F(StoredRowsTest, ANewLeaderWhoseRowsHaveMovedTakesNone) {
  add_steps(0, 57, 1);
  RowStorer storer(merge_, kRows);
  make(57, storer);
  ASSERT_TRUE(merge_.add(EventRow{0.1, 0, EventKind::kill, 0, 0, 0, "late"}).ok());
  RowStorer successor(merge_, kRows);
  add_steps(58, 59, 1);
  make(59, successor);
  const History history = history_of(opened(59));
  ASSERT_EQ(history.events.size(), 61u);
  EXPECT_EQ(history.events.at(1).kind, EventKind::kill);
}

// As on file systems that know no hard links.
TEST_F(StoredRowsTest, WhereNothingCanBeLinkedItIsWrittenAgain) {
  add_steps(0, 57);
  RowStorer storer(merge_, kRows);
  make(39, storer);
  std::filesystem::remove_all(folder_ / "step-39");
  make(57, storer);
  EXPECT_EQ(history_of(opened(57)).steps.size(), 58u);
}

}  // namespace
}  // namespace swarmpi::stored_rows_test
