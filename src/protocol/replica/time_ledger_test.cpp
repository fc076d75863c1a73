#include "protocol/replica/time_ledger.hpp"

#include <gtest/gtest.h>

namespace swarmpi::time_ledger_test {
namespace {

using Wait = TimeLedger::Wait;

TEST(TimeLedger, WaitingIsNamedByItsCause) {
  TimeLedger ledger;
  ledger.born(-2);
  ledger.waited(1, Wait::start, 0);
  ledger.waited(5, Wait::others, 0);
  ledger.waited(11, Wait::repair, 0);
  ledger.waited(18, Wait::checkpoint, 0);
  const GoodputRow row = ledger.take();
  EXPECT_EQ(row.start_s, 3);
  EXPECT_EQ(row.idle_s, 4);
  EXPECT_EQ(row.repair_s, 6);
  EXPECT_EQ(row.checkpoint_s, 7);
  EXPECT_EQ(row.total_s(), 20);
}

TEST(TimeLedger, ALifeBeginsWithTheFirstEventWhereItsStartIsNotKnown) {
  TimeLedger ledger;
  ledger.waited(100, Wait::start, 0);
  ledger.waited(101, Wait::others, 0);
  EXPECT_EQ(ledger.take().total_s(), 1);
}

// Of ten seconds without a job something was on its way for three, then for all; while a job ran,
// and while a death was repaired, transfers cost nothing.
TEST(TimeLedger, WaitingIsForALinkAsLongAsSomethingIsOnItsWay) {
  TimeLedger ledger;
  ledger.born(0);
  ledger.waited(10, Wait::others, 3);
  ledger.worked(20, 13);
  ledger.job_over(10);
  ledger.book(&GoodputRow::reduction_s, 10);
  ledger.waited(30, Wait::repair, 23);
  ledger.waited(40, Wait::others, 34);
  const GoodputRow row = ledger.take();
  EXPECT_EQ(row.link_s, 3 + 10);
  EXPECT_EQ(row.idle_s, 7);
  EXPECT_EQ(row.total_s(), 40);
}

TEST(TimeLedger, WhatPassesBesideAJobIsIdle) {
  TimeLedger ledger;
  ledger.born(0);
  ledger.worked(4, 0);
  ledger.worked(10, 0);  // an event that was not its end
  ledger.job_over(8);    // it began late, or its end was heard of late
  ledger.book(&GoodputRow::reduction_s, 8);
  const GoodputRow row = ledger.take();
  EXPECT_EQ(row.reduction_s, 8);
  EXPECT_EQ(row.idle_s, 2);
}

// A forward pass of 2 s and its backward pass of 4 s; another forward pass, of 1 s, whose gradient
// never came here.
TEST(TimeLedger, APassIsOfUseOnceItsStepIsCommitted) {
  TimeLedger ledger;
  ledger.born(0);
  ledger.worked(7, 0);
  ledger.job_over(7);
  ledger.open(Step(3), 2);
  ledger.open(Step(3), 1);
  ledger.open(Step(3), 4);
  ledger.counts(Step(3), 2 + 4);
  ledger.open(Step(4), 0);
  EXPECT_EQ(ledger.booked().total_s(), 0) << "it is not known yet";
  EXPECT_EQ(ledger.untold_s(), 7);
  ledger.committed(Step(3));
  EXPECT_EQ(ledger.booked().useful_s, 6);
  EXPECT_EQ(ledger.booked().repeated_s, 1);
  EXPECT_EQ(ledger.untold_s(), 7);
}

TEST(TimeLedger, WhatWasDoneForStepsThatAreLostIsLost) {
  TimeLedger ledger;
  ledger.open(Step(3), 5);
  ledger.counts(Step(3), 4);
  ledger.go_back();
  ledger.open(Step(3), 7);
  ledger.counts(Step(3), 7);
  ledger.committed(Step(3));
  const GoodputRow row = ledger.take();
  EXPECT_EQ(row.repeated_s, 5);
  EXPECT_EQ(row.useful_s, 7);
  EXPECT_EQ(ledger.take().total_s(), 0) << "a row tells what the one before has not";
}

}  // namespace
}  // namespace swarmpi::time_ledger_test
