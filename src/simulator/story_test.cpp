#include "simulator/story.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

StepRow row(std::int64_t step, double loss, std::int64_t term) {
  StepRow made;
  made.step = step;
  made.loss = loss;
  made.time_s = static_cast<double>(term);
  made.term = term;
  return made;
}

std::string told_by(const std::vector<StepRow>& rows, Story& story) {
  VirtualDisk disk;
  for (const StepRow& r : rows) disk.journal.push_back({PeerId(0), Term(r.term), {0, r}});
  return add_journal(story, disk, Step(-1));
}

TEST(Story, RowsThatTwoLeadersWroteCountOnce) {
  Story story;
  EXPECT_EQ(told_by({row(0, 1, 1), row(1, 2, 1), row(1, 2, 2), row(2, 3, 2)}, story), "");
  EXPECT_EQ(story.rows.size(), 3u);
}

TEST(Story, RowsThatContradictEachOtherAreNamed) {
  Story story;
  const std::string wrong = told_by({row(0, 1, 1), row(1, 2, 1), row(1, 2.5, 2)}, story);
  EXPECT_EQ(wrong, "written twice: loss of step 1: 2 and 2.5");
}

TEST(Story, AGapIsNamed) {
  Story story;
  EXPECT_EQ(told_by({row(0, 1, 1), row(2, 3, 1)}, story), "row 1 is missing, row 2 is there");
}

TEST(Story, ALaterPartMayTellTheEndOfTheEarlierOneAgain) {
  Story story, later;
  ASSERT_EQ(told_by({row(0, 1, 1), row(1, 2, 1)}, story), "");
  later.rows = {row(1, 2, 2), row(2, 3, 2)};
  EXPECT_EQ(join(story, later), "");
  EXPECT_EQ(story.rows.size(), 3u);
  later.rows = {row(2, 4, 3)};
  EXPECT_NE(join(story, later), "");
}

TEST(Story, RecordsOfOneStepMayDifferInTermAndTimeOnly) {
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
}  // namespace swarmpi
