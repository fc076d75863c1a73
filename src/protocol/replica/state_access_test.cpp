#include "protocol/replica/state_access.hpp"

#include <gtest/gtest.h>

namespace swarmpi::state_access_test {
namespace {

using Stages = std::vector<StageId>;

TEST(StateAccess, AStageIsFreedOnceItIsWritten) {
  StateAccess access;
  access.begin_writing(StageId(0));
  for (const std::int32_t stage : {0, 1}) access.drop(StageId(stage));
  EXPECT_EQ(access.next_drop()->stage, StageId(1));
  EXPECT_FALSE(access.next_drop()) << "stage 0 is being written";
  EXPECT_FALSE(access.is_free(StageId(0)));
  access.written(StageId(0));
  EXPECT_EQ(access.next_drop()->stage, StageId(0));
  EXPECT_TRUE(access.is_free(StageId(0)));
}

// All go back. Stage 0 stays with this peer, stage 1 does not, stage 2 is new here.
TEST(StateAccess, AfterGoingBackStagesAreLoadedAndTheOthersFreed) {
  StateAccess access;
  EXPECT_FALSE(access.loads());
  access.go_back({StageId(0), StageId(1)}, {{"a", 1, 2}});
  access.keep({StageId(0), StageId(2)});
  ASSERT_TRUE(access.loads());
  EXPECT_EQ(access.files().front().name, "a");
  for (const std::int32_t stage : {0, 2}) access.load_later(StageId(stage));
  access.begin_writing(StageId(0));
  EXPECT_EQ(access.begin_loading(), Stages{StageId(2)}) << "stage 0 is still being written";
  EXPECT_TRUE(access.loading());
  EXPECT_EQ(access.next_drop()->stage, StageId(1));
  access.written(StageId(0));
  EXPECT_EQ(access.begin_loading(), Stages{StageId(0)});
  access.loaded();
  EXPECT_TRUE(access.loading());
  access.loaded();
  EXPECT_FALSE(access.loading());
}

}  // namespace
}  // namespace swarmpi::state_access_test
