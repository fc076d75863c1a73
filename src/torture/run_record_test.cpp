#include "torture/run_record.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/record_port.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::run_record_test {
namespace {

StepRow row(std::int64_t step, double loss, std::int64_t term) {
  StepRow made;
  made.step = step;
  made.loss = loss;
  made.time_s = static_cast<double>(term);
  made.term = term;
  return made;
}

std::string told_by(const std::vector<StepRow>& rows, RunRecord& run_record) {
  VirtualDisk disk;
  for (const StepRow& r : rows)
    disk.journal.push_back(
        {PeerId(0), Term(r.term), std::make_shared<const StoreRecord>(StoreRecord{0, r})});
  return add_journal(run_record, disk, Step(-1));
}

TEST(RunRecord, RowsThatTwoLeadersWroteCountOnce) {
  RunRecord run_record;
  EXPECT_EQ(told_by({row(0, 1, 1), row(1, 2, 1), row(1, 2, 2), row(2, 3, 2)}, run_record), "");
  EXPECT_EQ(run_record.rows.size(), 3u);
}

TEST(RunRecord, RowsThatContradictEachOtherAreNamed) {
  RunRecord run_record;
  const std::string wrong = told_by({row(0, 1, 1), row(1, 2, 1), row(1, 2.5, 2)}, run_record);
  EXPECT_EQ(wrong, "written twice: loss of step 1: 2 and 2.5");
}

TEST(RunRecord, AGapIsNamed) {
  RunRecord run_record;
  EXPECT_EQ(told_by({row(0, 1, 1), row(2, 3, 1)}, run_record), "row 1 is missing, row 2 is there");
}

TEST(RunRecord, ALaterPartMayTellTheEndOfTheEarlierOneAgain) {
  RunRecord run_record, later;
  ASSERT_EQ(told_by({row(0, 1, 1), row(1, 2, 1)}, run_record), "");
  later.rows = {row(1, 2, 2), row(2, 3, 2)};
  EXPECT_EQ(join(run_record, later), "");
  EXPECT_EQ(run_record.rows.size(), 3u);
  later.rows = {row(2, 4, 3)};
  EXPECT_NE(join(run_record, later), "");
}

TEST(RunRecord, RecordsOfOneStepMayDifferInTermAndTimeOnly) {
  CommitRecord a;
  a.next_exponents = {1, 2};
  CommitRecord b = a;
  b.term = Term(2);
  b.time_s = 5;
  EXPECT_EQ(difference(a, b), "");
  b.next_exponents = {1, 3};
  EXPECT_NE(difference(a, b), "");
  b = a;
  b.clip = 0.5f;
  EXPECT_EQ(difference(a, b), "clip of step 0: 1 and 0.5");
}

}  // namespace
}  // namespace swarmpi::run_record_test
