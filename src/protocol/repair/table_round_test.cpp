#include "protocol/repair/table_round.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/reduction.hpp"
#include "protocol/messages/reports.hpp"
#include "protocol/repair/work_rows.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::table_round_test {
namespace {

const View::Roles kMembers{{PeerId(0), {}}, {PeerId(1), {}}, {PeerId(2), {}}};

TEST(TableRound, IsSettledOnceTheTablesOfAllAreIn) {
  TableRound round(0);
  EXPECT_FALSE(round.gathering());
  round.gather(kMembers);
  EXPECT_EQ(round.waiting_for(), "tables of peers 0 1 2");
  for (const std::int32_t id : {0, 1}) EXPECT_TRUE(round.enter({}, PeerId(id)));
  EXPECT_FALSE(round.enter({}, PeerId(1))) << "sent twice";
  EXPECT_FALSE(round.enter({}, PeerId(9))) << "not a member";
  EXPECT_TRUE(round.gathering());
  EXPECT_TRUE(round.enter({}, PeerId(2)));
  EXPECT_FALSE(round.gathering());
  EXPECT_EQ(round.tables().size(), 3u);
}

TEST(TableRound, WhoIsLeftOutIsNotAwaited) {
  TableRound round(0);
  EXPECT_FALSE(round.leave_out({PeerId(1)})) << "no round";
  round.gather({{PeerId(0), {}}, {PeerId(1), {}}, {PeerId(2), {}}});
  EXPECT_FALSE(round.leave_out({PeerId(1)})) << "others are";
  EXPECT_TRUE(round.enter({}, PeerId(0)));
  EXPECT_FALSE(round.leave_out({PeerId(1)}));
  EXPECT_TRUE(round.leave_out({PeerId(2)}));
  EXPECT_FALSE(round.gathering());
  EXPECT_FALSE(round.enter({}, PeerId(1)));
}

TEST(TableRound, HoldsBackWhatFollowsATableUntilAllAreIn) {
  TableRound round(0);
  EXPECT_FALSE(round.came_after_table(PeerId(0))) << "no round is under way";
  round.gather(kMembers);
  EXPECT_FALSE(round.came_after_table(PeerId(0))) << "what came before is in its table";
  round.enter({}, PeerId(0));
  EXPECT_TRUE(round.came_after_table(PeerId(0)));
  round.hold_back(PeerId(0), ReportMessage{});
  round.hold_back(PeerId(0), ReducedMessage{});
  const auto late = round.release();
  ASSERT_EQ(late.size(), 2u);
  EXPECT_TRUE(holds_alternative<ReportMessage>(late[0].second));
  EXPECT_TRUE(round.release().empty());
}

TEST(TableRound, AnotherChangeOfTheViewBeginsItAgainAndKeepsTheTimeOfTheCause) {
  TableRound round(1);
  round.drop_tables(2);
  round.gather(kMembers);
  round.enter({}, PeerId(0));
  round.drop_tables(3);
  EXPECT_TRUE(round.tables().empty());
  EXPECT_EQ(round.since_s(), 2) << "the first cause is not repaired yet";
  round.gather({{PeerId(0), {}}});
  round.enter({}, PeerId(0));
  round.drop_tables(4);
  EXPECT_EQ(round.since_s(), 4);
}

TEST(TableRound, WhileACheckpointIsLookedUpNoTableIsAwaited) {
  TableRound round(0);
  round.gather(kMembers);
  round.fall_back();
  EXPECT_TRUE(round.falling_back());
  EXPECT_FALSE(round.enter({}, PeerId(0)));
  round.end_fall_back();
  EXPECT_FALSE(round.gathering() || round.falling_back());
}

TEST(ProgressDeadline, DoublesItsPatienceUntilSomethingComes) {
  ProgressDeadline deadline(4, 0);
  EXPECT_FALSE(deadline.passed(4));
  EXPECT_TRUE(deadline.passed(4.1));
  deadline.round_at_deadline();
  deadline.restart(5);
  EXPECT_TRUE(deadline.round_ended(true));
  EXPECT_FALSE(deadline.round_ended(true)) << "said once";
  EXPECT_FALSE(deadline.passed(13));
  EXPECT_TRUE(deadline.passed(13.1));
  deadline.progress(14);
  EXPECT_TRUE(deadline.passed(18.1));
}

TEST(ProgressDeadline, AWaitThatNeededNoRoundMayBeTwiceAsLong) {
  ProgressDeadline deadline(4, 0);
  deadline.round_at_deadline();
  deadline.restart(5);
  deadline.round_ended(false);
  deadline.progress(10);
  EXPECT_FALSE(deadline.passed(30));
  EXPECT_TRUE(deadline.passed(30.1));
  deadline.round_at_deadline();
  deadline.round_ended(false);
  deadline.progress(1000);
  EXPECT_TRUE(deadline.passed(1032.1)) << "eight times the first patience at most";
}

// Tables wait behind the same chunks as what they were asked for.
TEST(ProgressDeadline, AWaitThatEndedWhileTablesWereAwaitedMayBeTwiceAsLong) {
  ProgressDeadline deadline(4, 0);
  deadline.round_at_deadline();
  deadline.progress(6);
  deadline.progress(6.5);  // held back
  deadline.round_ended(false);
  deadline.progress(7);  // as it is released
  EXPECT_FALSE(deadline.passed(18.9));
  EXPECT_TRUE(deadline.passed(19.1));
}

TEST(ProgressDeadline, ALongWaitWithoutARoundOrForAnotherCauseIsNoReasonToWaitLonger) {
  ProgressDeadline deadline(4, 0);
  deadline.progress(60);  // all had to load
  EXPECT_TRUE(deadline.passed(64.1));
  deadline.round_at_deadline();
  deadline.round_for_another_cause();
  deadline.round_ended(false);
  deadline.progress(120);
  EXPECT_TRUE(deadline.passed(124.1));
}

TEST(ProgressDeadline, WhatComesWhileTablesAreAwaitedDoesNotMakeTheRoundNeedless) {
  ProgressDeadline deadline(4, 0);
  deadline.round_at_deadline();
  deadline.progress(5);
  deadline.round_ended(true);
  deadline.progress(20);
  EXPECT_TRUE(deadline.passed(24.1));
}

TEST(ProgressDeadline, ADeathIsTheCauseOfItsRound) {
  ProgressDeadline deadline(4, 0);
  deadline.round_at_deadline();
  deadline.round_for_another_cause();
  EXPECT_FALSE(deadline.round_ended(true));
}

// A microbatch that peer 0 has contributed, and peer 1 has passed on without contributing.
TEST(WorkRows, TheHolderOfAStageIsTheOneThatHasContributedElseOneThatWorksOnIt) {
  const RunPlan plan = testing::tiny_plan(2, 4);
  const MicrobatchId id{Step(2), Purpose::train, 3};
  Ledger ledger(plan, Step(2));
  ledger.add_contribution({{id, StageId(0)}, {kernels::Contribution{}}}, PeerId(0));
  Tables tables;
  tables[PeerId(0)].works.push_back(
      {{id, StageId(0)}, Phase::over, PeerId(5), {}, {}, false, true, true});
  tables[PeerId(1)].works.push_back(
      {{id, StageId(0)}, Phase::passed_on, PeerId(6), {}, {}, false, true, true});
  tables[PeerId(1)].works.push_back({{id, StageId(1)}, Phase::over, {}, {}, {}, false, true, true});
  const MicrobatchState state = WorkRows(tables).state_of(id, ledger, 2);
  ASSERT_TRUE(state.stages[0]);
  EXPECT_EQ(state.stages[0]->peer, PeerId(0));
  EXPECT_EQ(state.stages[0]->sent_to, PeerId(5));
  EXPECT_FALSE(state.stages[1]) << "through with it, and contributed nothing";
}

}  // namespace
}  // namespace swarmpi::table_round_test
