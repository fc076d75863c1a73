#include "torture/event_hash.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/message.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/process_port.hpp"
#include "protocol/messages/record_port.hpp"
#include "torture/swarm_check.hpp"

namespace swarmpi::event_hash_test {
namespace {

std::uint64_t hash_of_schedule(std::uint64_t seed) {
  EventHash hash;
  check_torture(seed, {}, &hash);
  return hash.value();
}

std::uint64_t hash_of(const Event& event) {
  EventHash hash;
  hash.happened(1, PeerId(2), event);
  return hash.value();
}

std::uint64_t hash_of(const Action& action) {
  EventHash hash;
  hash.asked(1, PeerId(2), action);
  return hash.value();
}

TEST(EventHash, IsTheSameWheneverAScheduleRuns) {
  EXPECT_EQ(hash_of_schedule(5), hash_of_schedule(5));
  EXPECT_NE(hash_of_schedule(5), hash_of_schedule(6));
}

TEST(EventHash, SeesEveryField) {
  const auto done = [](std::int32_t stage, double compute_s) {
    return Event(
        MessageArrived{PeerId(1), {Incarnation(0), {}, ForwardDone{StageId(stage), compute_s}}});
  };
  EXPECT_EQ(hash_of(done(1, 0.5)), hash_of(done(1, 0.5)));
  EXPECT_NE(hash_of(done(1, 0.5)), hash_of(done(2, 0.5)));
  EXPECT_NE(hash_of(done(1, 0.5)), hash_of(done(1, 0.25)));
}

TEST(EventHash, SeesPayloads) {
  const auto forward = [](float value) {
    const auto payload = std::make_shared<Payload>(sizeof(float));
    *payload->as<float>() = value;
    return Action(Send{PeerId(1), {Incarnation(0), {}, ForwardMessage{{}, payload, nullptr}}});
  };
  EXPECT_EQ(hash_of(forward(1)), hash_of(forward(1)));
  EXPECT_NE(hash_of(forward(1)), hash_of(forward(2)));
}

TEST(EventHash, SeesTimesPeersAndDeaths) {
  EventHash a, b, c;
  a.happened(1, PeerId(1), TimerDue{});
  b.happened(2, PeerId(1), TimerDue{});
  c.happened(1, PeerId(2), TimerDue{});
  EXPECT_NE(a.value(), b.value());
  EXPECT_NE(a.value(), c.value());
  b = a;
  b.died(1, PeerId(1));
  EXPECT_NE(a.value(), b.value());
}

TEST(EventHash, DoesNotSeeProse) {
  EXPECT_EQ(hash_of(Action(StoreEnd{ExitStatus::no, "one way to say it"})),
            hash_of(Action(StoreEnd{ExitStatus::no, "another"})));
  EXPECT_NE(hash_of(Action(StoreEnd{ExitStatus::no, ""})),
            hash_of(Action(StoreEnd{ExitStatus::stopped, ""})));
}

}  // namespace
}  // namespace swarmpi::event_hash_test
