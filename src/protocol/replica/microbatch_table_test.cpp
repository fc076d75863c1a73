#include "protocol/replica/microbatch_table.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/table_rows.hpp"

namespace swarmpi::microbatch_table_test {
namespace {

WorkId work_id(std::int64_t step, std::int32_t index, std::int32_t stage = 1) {
  return {{Step(step), Purpose::train, index}, StageId(stage)};
}
PayloadRef bytes(std::int64_t count) { return std::make_shared<Payload>(count); }

const auto kAny = [](const WorkId&) { return true; };

TEST(MicrobatchTable, OlderStepsGoFirst) {
  MicrobatchTable table(0);
  for (const std::int64_t step : {3, 2}) {
    const WorkId id = work_id(step, 0);
    table.forward_due(id, table.enter(id));
  }
  EXPECT_EQ(table.passes_due(), 2u);
  EXPECT_EQ(table.take_forward([](const WorkId& id) { return id.microbatch.step == Step(3); }),
            work_id(3, 0))
      << "the older one may not run";
  EXPECT_EQ(table.take_forward(kAny), work_id(2, 0));
  EXPECT_FALSE(table.take_forward(kAny));
}

TEST(MicrobatchTable, APhaseFollowsTheMicrobatchThroughItsPasses) {
  MicrobatchTable table(0);
  const WorkId id = work_id(1, 4);
  Work& work = table.enter(id);
  EXPECT_EQ(work.phase(), Phase::over);
  table.forward_due(id, work);
  EXPECT_EQ(work.phase(), Phase::to_forward);
  work.forward_due = false;
  work.awaits_gradient = true;
  EXPECT_EQ(work.phase(), Phase::passed_on);
  table.backward_due(id, work, bytes(8));
  EXPECT_EQ(work.phase(), Phase::to_backward);
  EXPECT_FALSE(work.awaits_gradient);
  EXPECT_EQ(table.take_backward(kAny)->second->size_bytes(), 8u);
}

TEST(MicrobatchTable, AwaitsSomethingOfThoseToWhomItHasSent) {
  MicrobatchTable table(0);
  const auto send = [&](std::int32_t index, int to) {
    Work& work = table.enter(work_id(1, index));
    work.awaits_gradient = true;
    work.sent_to = PeerId(to);
  };
  EXPECT_TRUE(table.awaited().empty());
  send(0, 7);
  send(1, 5);
  send(2, 7);
  EXPECT_EQ(table.awaited(), (FlatSet{PeerId(5), PeerId(7)}));
  table.backward_due(work_id(1, 1), *table.find(work_id(1, 1)), bytes(3));
  EXPECT_EQ(table.awaited(), FlatSet{PeerId(7)}) << "its gradient is here";
  table.find(work_id(1, 2))->sent_to = PeerId(8);
  EXPECT_EQ(table.awaited(), (FlatSet{PeerId(7), PeerId(8)}));
  table.find(work_id(1, 2))->awaits_gradient = false;
  table.drop_if_done(work_id(1, 2));
  EXPECT_EQ(table.awaited(), FlatSet{PeerId(7)});
  send(3, 9);
  table.find(work_id(1, 3))->arrival.path = std::make_shared<Path>();
  table.find(work_id(1, 3))->awaits_gradient = false;
  EXPECT_EQ(table.awaited(), (FlatSet{PeerId(7), PeerId(9)})) << "the leader awaits what comes";
  table.forget(Step(1));
  EXPECT_TRUE(table.awaited().empty());
  send(4, 5);
  table.drop_stage(StageId(1));
  EXPECT_TRUE(table.awaited().empty());
}

TEST(MicrobatchTable, KnowsWhatTheNextPassWillRead) {
  MicrobatchTable table(0);
  EXPECT_EQ(table.read_next(), nullptr);
  const auto forward = [&](std::int32_t index, const PayloadRef& input) {
    Work& work = table.enter(work_id(1, index));
    work.arrival.input = input;
    table.forward_due(work_id(1, index), work);
  };
  const PayloadRef first = bytes(1), second = bytes(2), gradient = bytes(3);
  forward(1, second);
  EXPECT_EQ(table.read_next(), second);
  forward(0, first);
  EXPECT_EQ(table.read_next(), first);
  table.backward_due(work_id(1, 1), table.enter(work_id(1, 1)), gradient);
  EXPECT_EQ(table.read_next(), gradient) << "backward passes go first";
  // In the last stage a backward pass has no gradient from elsewhere: it reads its input.
  table.take_backward(kAny);
  table.backward_due(work_id(1, 1), table.enter(work_id(1, 1)), nullptr);
  EXPECT_EQ(table.read_next(), second);
}

TEST(MicrobatchTable, PassesThatAreDueAreCountedByStage) {
  MicrobatchTable table(1000);
  const auto enter = [&](std::int64_t step, std::int32_t index, std::int32_t stage) {
    const WorkId id{{Step(step), Purpose::train, index}, StageId(stage)};
    table.forward_due(id, table.enter(id));
    table.forward_due(id, table.enter(id));  // asked for twice
    table.backward_due(id, table.enter(id), nullptr);
  };
  enter(1, 0, 0);
  enter(1, 1, 0);
  enter(2, 0, 0);
  enter(2, 0, 1);
  EXPECT_EQ(table.passes_due(StageId(0)), 6);
  EXPECT_EQ(table.passes_due(StageId(1)), 2);
  EXPECT_EQ(table.passes_due(StageId(2)), 0);
  const auto any = [](const WorkId&) { return true; };
  table.take_forward(any);
  table.take_backward(any);
  EXPECT_EQ(table.passes_due(StageId(0)), 4);
  table.forget(Step(1));
  EXPECT_EQ(table.passes_due(StageId(0)), 2);
  table.drop_stage(StageId(1));
  EXPECT_EQ(table.passes_due(StageId(1)), 0);
}

TEST(MicrobatchTable, KeepsWhatWasSentWithinItsMemory) {
  MicrobatchTable table(100);
  Work& first = table.enter(work_id(1, 0));
  EXPECT_TRUE(table.keep(first, bytes(60)));
  EXPECT_FALSE(table.keep(first, nullptr));
  Work& second = table.enter(work_id(2, 0));
  EXPECT_FALSE(table.keep(second, bytes(60)));
  table.forget(Step(1));
  EXPECT_TRUE(table.keep(*table.find(work_id(2, 0)), bytes(60))) << "the commit has freed memory";
  table.drop_stage(StageId(1));
  EXPECT_TRUE(table.all().empty());
  EXPECT_EQ(table.left_over(Step(1)), "");
}

TEST(MicrobatchTable, WhatIsKeptGivesWayWhereItsRoomShrinks) {
  MicrobatchTable table(300);
  const auto sent = [&](std::int64_t step, std::int32_t index) {
    const WorkId id = work_id(step, index);
    Work& work = table.enter(id);
    work.output = bytes(60);
    EXPECT_TRUE(table.keep(work, work.output));
    return id;
  };
  const WorkId oldest = sent(1, 0), older = sent(1, 1), newest = sent(2, 0);
  table.find(older)->awaits_gradient = true;
  const WorkId repaired = sent(2, 1);
  table.find(repaired)->arrival.path = std::make_shared<const Path>();
  table.set_memory(180);
  EXPECT_EQ(table.find(newest), nullptr) << "nothing of it is needed any more";
  EXPECT_NE(table.find(repaired)->output, nullptr) << "it may be on its way";
  table.set_memory(60);
  EXPECT_EQ(table.find(older)->output, nullptr);
  EXPECT_NE(table.find(older), nullptr) << "its gradient will come";
  EXPECT_EQ(table.find(oldest), nullptr);
  EXPECT_EQ(table.left_over(Step(0)), "") << "what is booked is there";
  EXPECT_FALSE(table.keep(*table.find(older), bytes(1)));
}

TEST(MicrobatchTable, ARepairedMicrobatchIsRememberedUntilItsCommit) {
  MicrobatchTable table(0);
  table.enter(work_id(1, 0));
  table.enter(work_id(1, 1)).arrival.path = std::make_shared<const Path>();
  for (const std::int32_t index : {0, 1}) table.drop_if_done(work_id(1, index));
  EXPECT_EQ(table.find(work_id(1, 0)), nullptr);
  EXPECT_NE(table.find(work_id(1, 1)), nullptr) << "it may be sent again";
  EXPECT_EQ(table.left_over(Step(1)), "a microbatch of a committed step");
  table.forget(Step(1));
  EXPECT_EQ(table.find(work_id(1, 1)), nullptr);
}

}  // namespace
}  // namespace swarmpi::microbatch_table_test
