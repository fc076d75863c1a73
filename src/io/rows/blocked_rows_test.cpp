#include "io/rows/blocked_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "io/test_support.hpp"

namespace swarmpi::blocked_rows_test {
namespace {

using Events = BlockedRows<KeptRow<EventRow>>;
using Steps = BlockedRows<KeptRow<StepRow>>;

KeptRow<EventRow> event(double time_s, std::int64_t step, std::int64_t number) {
  EventRow row;
  row.time_s = time_s;
  row.step = step;
  row.peer = number;
  row.detail = "event " + std::to_string(number);
  return {row, 1};
}

template <class Row>
std::vector<Row> all_of(BlockedRows<Row>& rows, std::size_t from = 0) {
  std::vector<Row> found;
  rows.for_each_block(from, [&found](std::span<const Row> block) {
    found.insert(found.end(), block.begin(), block.end());
    return true;
  });
  return found;
}

void expect_equal(Events& rows, const std::vector<KeptRow<EventRow>>& expected) {
  const auto found = all_of(rows);
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_EQ(rows.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].row.peer, expected[i].row.peer) << i;
    ASSERT_EQ(found[i].row.detail, expected[i].row.detail) << i;
  }
}

// Five blocks and more, of which three are in memory.
class BlockedRowsTest : public testing::TestWithParam<bool> {
 protected:
  TestFolder folder_;
  ScratchFile scratch_{GetParam() ? folder_ / "rows" : ""};
  std::mt19937 random_{7};
};
INSTANTIATE_TEST_SUITE_P(WithAndWithoutAFile, BlockedRowsTest, testing::Bool());

TEST_P(BlockedRowsTest, AreInOrderWhateverComes) {
  Events rows(scratch_);
  std::vector<KeptRow<EventRow>> expected;
  std::uniform_int_distribution<std::int64_t> jump(0, 5000);
  for (std::int64_t number = 0; number < 25'000; ++number) {
    const std::int64_t back = number % 3 == 0 ? jump(random_) : 0;
    const auto row = event(static_cast<double>((number - back) / 2), number, number);
    rows.insert(row);
    const auto place =
        std::upper_bound(expected.begin(), expected.end(), row,
                         [](const auto& a, const auto& b) { return a.row.time_s < b.row.time_s; });
    expected.insert(place, row);
  }
  expect_equal(rows, expected);
  EXPECT_EQ(rows.count_through(5000.0),
            static_cast<std::size_t>(std::count_if(expected.begin(), expected.end(), [](auto& row) {
              return row.row.time_s <= 5000;
            })));
  const auto odd = [](const KeptRow<EventRow>& row) { return row.row.peer % 2 == 1; };
  rows.erase_after(8000, odd);
  std::erase_if(expected, [&](const auto& row) { return row.row.step > 8000 && odd(row); });
  expect_equal(rows, expected);
  rows.erase_above(7000.0, [](const auto&) { return true; });
  std::erase_if(expected, [](const auto& row) { return row.row.time_s > 7000; });
  expect_equal(rows, expected);
  EXPECT_FALSE(scratch_.failed());
}

TEST_P(BlockedRowsTest, ARowIsFoundAndReplaced) {
  Steps rows(scratch_);
  for (std::int64_t step = 0; step < 20'000; ++step) rows.insert({step_row(step), 1});
  rows.settle();
  EXPECT_EQ(rows.changed_from(), 20'000u);
  EXPECT_EQ(rows.find(20'000), nullptr);
  for (const std::int64_t step : {15'000, 3, 9'000, 19'999}) {
    ASSERT_NE(rows.find(step), nullptr);
    EXPECT_EQ(rows.find(step)->row.state_hash, step_row(step).state_hash);
    rows.replace({step_row(step), 2});
  }
  EXPECT_EQ(rows.changed_from(), 3u);
  rows.settle();
  rows.insert({step_row(20'000), 2});
  EXPECT_EQ(rows.changed_from(), 20'000u) << "what comes behind changes nothing";
  const auto found = all_of(rows, 2);
  ASSERT_EQ(found.size(), 19'999u);
  EXPECT_EQ(found[0].term, 1);
  EXPECT_EQ(found[1].term, 2);
}

TEST(BlockedRows, OfManyRowsFewAreInMemory) {
  const TestFolder folder;
  ScratchFile scratch(folder / "rows");
  Steps rows(scratch);
  for (std::int64_t step = 0; step < 400'000; ++step) rows.insert({step_row(step), 1});
  EXPECT_EQ(rows.size(), 400'000u);
  EXPECT_LE(rows.rows_in_memory(), Steps::kBlocksInMemory * Steps::kBlockRows);
}

// A killed process does not free its blocks, for then its death would be told that much later.
TEST(BlockedRows, AScratchFileHasANameWhileItIsUsedAndNeedsNone) {
  const TestFolder folder;
  {
    ScratchFile scratch(folder / "rows");
    const std::vector<std::string> files = ScratchFile::all_of(folder / "rows");
    ASSERT_EQ(files.size(), 1u);
    EXPECT_EQ(remove_file(files[0]), 0) << "as a successor does that takes it for dead";
    Steps rows(scratch);
    for (std::int64_t step = 0; step < 40'000; ++step) rows.insert({step_row(step), 1});
    EXPECT_EQ(all_of(rows).size(), 40'000u);
    EXPECT_FALSE(scratch.failed());
    const ScratchFile other(folder / "rows");
    EXPECT_EQ(ScratchFile::all_of(folder / "rows").size(), 1u);
  }
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(BlockedRows, AFullDiskCostsNothingButMemory) {
  const TestFolder folder;
  ScratchFile scratch(folder / "rows");
  Steps rows(scratch);
  {
    const SmallDisk disk(1'000'000);
    for (std::int64_t step = 0; step < 40'000; ++step) rows.insert({step_row(step), 1});
    EXPECT_EQ(all_of(rows).size(), 40'000u);
  }
  const auto found = all_of(rows);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].row.step, static_cast<std::int64_t>(i));
  }
  EXPECT_FALSE(scratch.failed());
}

}  // namespace
}  // namespace swarmpi::blocked_rows_test
