#include "simulation/traffic_count.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "protocol/messages/commit.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/reports.hpp"
#include "protocol/step/commit_record.hpp"
#include "transport/wire/wire.hpp"

namespace swarmpi::traffic_count_test {
namespace {

constexpr std::int64_t kPrefixBytes = 24;

class TrafficCountTest : public testing::Test {
 protected:
  TrafficCountTest() { plan_.kept_bytes = 250; }

  void send(PeerId from, PeerId to, MessageBody body) {
    count_.asked(0, from, Send{to, {{}, {}, std::move(body)}});
  }
  static WorkId work(std::int64_t step, std::int32_t index) {
    return {{Step(step), Purpose::train, index}, StageId(1)};
  }
  static PayloadRef payload(std::size_t bytes) { return std::make_shared<Payload>(bytes); }

  RunPlan plan_;
  TrafficCount count_{plan_};
};

TEST_F(TrafficCountTest, AMessageWeighsWhatTheWireCarries) {
  const ForwardMessage forward{work(1, 0), payload(100), nullptr};
  const auto header = static_cast<std::int64_t>(pack({{}, {}, forward}).header.size());
  send(PeerId(0), PeerId(1), forward);
  const Traffic& boundary = count_.between(MessageClass::boundary);
  EXPECT_EQ(boundary.messages, 1);
  EXPECT_EQ(boundary.payload_bytes, 100);
  EXPECT_EQ(boundary.bytes, kPrefixBytes + header + 100);
}

TEST_F(TrafficCountTest, WhatAPeerTellsItselfIsCountedApart) {
  send(PeerId(0), PeerId(0), ReportMessage{});
  EXPECT_EQ(count_.between(MessageClass::report).messages, 0);
  EXPECT_EQ(count_.within(MessageClass::report).messages, 1);
}

TEST_F(TrafficCountTest, WhatWasSentIsKeptUntilTheCommitWithinTheMemoryForIt) {
  send(PeerId(0), PeerId(1), ForwardMessage{work(1, 0), payload(100), nullptr});
  send(PeerId(0), PeerId(2), ForwardMessage{work(1, 0), payload(100), nullptr});
  send(PeerId(0), PeerId(1), ForwardMessage{work(2, 0), payload(100), nullptr});
  send(PeerId(0), PeerId(1), ForwardMessage{work(2, 1), payload(100), nullptr});
  send(PeerId(1), PeerId(0), BackwardMessage{work(1, 0), payload(30)});
  EXPECT_EQ(count_.most_kept_bytes().at(PeerId(0)), 200);
  EXPECT_EQ(count_.most_kept_bytes().at(PeerId(1)), 30);
  EXPECT_EQ(count_.most_kept_together_bytes(), 230);
  auto record = std::make_shared<CommitRecord>();
  record->step = Step(1);
  count_.happened(0, PeerId(0), MessageArrived{PeerId(0), {{}, {}, CommitMessage{record, {}, {}}}});
  send(PeerId(0), PeerId(1), ForwardMessage{work(2, 2), payload(150), nullptr});
  EXPECT_EQ(count_.most_kept_bytes().at(PeerId(0)), 250);
}

}  // namespace
}  // namespace swarmpi::traffic_count_test
