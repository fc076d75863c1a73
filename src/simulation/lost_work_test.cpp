#include "simulation/lost_work.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/commit.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::lost_work_test {
namespace {

WorkId work(std::int64_t step, std::int32_t index, std::int32_t stage = 0) {
  return {{Step(step), Purpose::train, index}, StageId(stage)};
}

class LostWorkTest : public testing::Test {
 protected:
  void begin(PeerId peer, Job job) { lost_.asked(0, peer, StartJob{std::move(job)}); }
  void backward(PeerId peer, const WorkId& id) {
    begin(peer, BackwardJob{id, {}, {}, {}});
    lost_.happened(0, peer, JobFinished{BackwardResult{id, {}, 0, {}}, 0});
  }
  void forward(PeerId peer, const WorkId& id) {
    begin(peer, ForwardJob{id, {}});
    lost_.happened(0, peer, JobFinished{ForwardResult{id, {}, 0}, 0});
  }
  void hears_of_commit(PeerId peer, std::int64_t step) {
    auto record = std::make_shared<CommitRecord>();
    record->step = Step(step);
    lost_.happened(0, peer, MessageArrived{PeerId(0), {{}, {}, CommitMessage{record, {}, {}}}});
  }
  const LostPasses& backwards() const { return lost_.passes(PassKind::backward); }

  LostWork lost_;
};

TEST_F(LostWorkTest, WhatTheDeadHadDoneInOpenStepsIsLost) {
  backward(PeerId(1), work(1, 0));
  backward(PeerId(1), work(2, 0));
  backward(PeerId(2), work(2, 1));
  forward(PeerId(1), work(2, 2));
  hears_of_commit(PeerId(2), 1);
  lost_.died(1, PeerId(1));
  EXPECT_TRUE(lost_.anything_was_open());
  EXPECT_EQ(backwards().own, 1);
  EXPECT_EQ(lost_.passes(PassKind::forward).own, 1);
  backward(PeerId(2), work(2, 0));
  EXPECT_EQ(backwards().own_again, 1);
  EXPECT_EQ(backwards().beyond_own(), 0);
}

TEST_F(LostWorkTest, ACommitThatOnlyTheDeadKnewOfLeavesTheStepOpen) {
  backward(PeerId(1), work(1, 0));
  hears_of_commit(PeerId(1), 1);
  lost_.died(1, PeerId(1));
  EXPECT_EQ(backwards().own, 1);
  EXPECT_EQ(backwards().beyond_own(), -1);
}

TEST_F(LostWorkTest, WhatIsCutShortIsDoneOnce) {
  begin(PeerId(1), BackwardJob{work(1, 0), {}, {}, {}});
  lost_.died(1, PeerId(1));
  EXPECT_EQ(backwards().cut_short, 1);
  backward(PeerId(2), work(1, 0));
  EXPECT_EQ(backwards().cut_again, 1);
  EXPECT_EQ(backwards().again(), 0);
}

TEST_F(LostWorkTest, APassOfOneWhoLivesIsNotTheDeadPeersOwn) {
  backward(PeerId(1), work(1, 0));
  backward(PeerId(2), work(1, 0, 1));
  lost_.died(1, PeerId(1));
  backward(PeerId(3), work(1, 0));
  backward(PeerId(2), work(1, 0));
  backward(PeerId(2), work(1, 0, 1));
  EXPECT_EQ(backwards().own_again, 1);
  EXPECT_EQ(backwards().others_again, 2);
  EXPECT_EQ(backwards().beyond_own(), 2);
  ASSERT_EQ(lost_.others_again().size(), 2u);
  EXPECT_NE(lost_.others_again()[1].find("which peer 2 had done"), std::string::npos);
}

TEST_F(LostWorkTest, NothingIsOpenOnceTheLastStepIsCommitted) {
  backward(PeerId(1), work(1, 0));
  hears_of_commit(PeerId(2), 1);
  lost_.died(1, PeerId(1));
  EXPECT_FALSE(lost_.anything_was_open());
  EXPECT_EQ(backwards().own, 0);
}

}  // namespace
}  // namespace swarmpi::lost_work_test
