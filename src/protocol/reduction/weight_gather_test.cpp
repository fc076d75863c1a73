#include "protocol/reduction/weight_gather.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "core/random.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/reduction/reduction.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::weight_gather_test {
namespace {

PayloadRef number(std::int64_t value) {
  auto payload = std::make_shared<Payload>(sizeof value);
  *payload->as<std::int64_t>() = value;
  return payload;
}
std::int64_t number(const PayloadRef& payload) { return *payload->as<std::int64_t>(); }
std::uint64_t hash_of(std::int64_t value) { return static_cast<std::uint64_t>(value) * 3 + 1; }

// Owners of a stage of so many blocks, whose messages and jobs are delivered in an order drawn from
// a seed. The weights of a chunk are one number.
class Owners {
 public:
  Owners(std::int64_t count, std::int64_t blocks, std::uint64_t seed) : seed_(seed) {
    const std::vector<Block> all(static_cast<std::size_t>(blocks), Block{0, 0, 4096});
    OwnedChunks cut = cut_into_owned_chunks(all, count, 4096);
    ReductionPlan plan;
    plan.step = Step(3);
    plan.chunks = cut.chunks;
    plan.owners = cut.owners;
    for (std::int32_t i = 0; i < count; ++i) plan.replicas.push_back(PeerId(10 + i));
    auto record = std::make_shared<CommitRecord>();
    record->step = plan.step;
    for (const PeerId peer : plan.replicas) {
      plan.self = peer;
      gathers.emplace_back(plan, record);
    }
    chunks = std::ssize(cut.chunks);
    owners = cut.owners;
    weights.resize(gathers.size());
  }

  void run(bool twice = false) {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (std::size_t i = 0; i < gathers.size(); ++i) goes_on |= compute(i);
      while (!messages_.empty()) {
        goes_on = true;
        const std::size_t pick = random_bits(seed_, Stream::test, 0, draws_++) % messages_.size();
        deliver(pick, twice);
      }
    }
  }
  bool compute(std::size_t i) {
    const std::optional<Job> job = gathers[i].next_job();
    if (!job) return false;
    Outbox outbox;
    if (const auto* update = get_if<UpdateJob>(&*job)) {
      EXPECT_EQ(owners.at(static_cast<std::size_t>(update->chunk)), static_cast<std::int64_t>(i));
      EXPECT_TRUE(weights[i].emplace(update->chunk, made_of(update->chunk)).second) << "once";
      finish(i, update->chunk, outbox);
    } else if (const auto* copy = get_if<CopyWeightsJob>(&*job)) {
      ++copies;
      finish(i, copy->chunk, outbox);
    } else {
      const auto& place = get<PlaceWeightsJob>(*job);
      std::int64_t value = number(place.weights);
      if (damages_at == i && damages > 0) value += damages--;
      weights[i][place.chunk] = value;
      const Status placed = gathers[i].finished(
          PlaceWeightsResult{place.step, place.stage, place.chunk, hash_of(value)}, outbox);
      if (!placed.ok()) failure = placed;
    }
    post(i, outbox);
    return true;
  }
  std::int64_t made_of(std::int32_t chunk) const { return 1000 + chunk; }

  std::deque<WeightGather> gathers;
  std::vector<std::map<std::int32_t, std::int64_t>> weights;
  std::vector<std::int64_t> owners;
  std::int64_t chunks = 0, copies = 0, sent = 0;
  // This replica has bad memory, so many times.
  std::size_t damages_at = 0;
  int damages = 0;
  Status failure;

 private:
  void finish(std::size_t i, std::int32_t chunk, Outbox& outbox) {
    const std::int64_t value = weights[i].at(chunk);
    gathers[i].finished(WeightsResult{Step(3), StageId(0), chunk, number(value), hash_of(value)},
                        outbox);
  }
  void post(std::size_t from, Outbox& outbox) {
    for (Action& action : outbox.take()) {
      messages_.push_back({from, get<Send>(action)});
      ++sent;
    }
  }
  void deliver(std::size_t pick, bool twice) {
    const auto [from, send] = messages_[pick];
    messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(pick));
    WeightGather& to = gathers[static_cast<std::size_t>(send.to.value - 10)];
    const PeerId sender(static_cast<std::int32_t>(from) + 10);
    for (int time = 0; time < (twice ? 2 : 1); ++time) {
      if (const auto* came = get_if<WeightsMessage>(&send.message.body)) {
        to.receive(*came, sender);
      } else {
        to.receive(get<WeightsPlaced>(send.message.body), sender);
      }
    }
  }

  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  std::deque<std::pair<std::size_t, Send>> messages_;
};

TEST(WeightGather, AllHaveTheWeightsThatOwnersHaveMade) {
  for (const std::int64_t count : {1, 2, 3, 5, 9}) {
    for (const bool twice : {false, true}) {
      Owners owners(count, 7, static_cast<std::uint64_t>(count));
      owners.run(twice);
      for (std::size_t i = 0; i < owners.gathers.size(); ++i) {
        EXPECT_TRUE(owners.gathers[i].complete()) << owners.gathers[i].waiting_for();
        EXPECT_TRUE(owners.gathers[i].awaited().empty());
        EXPECT_EQ(owners.gathers[i].waiting_for(), "");
        ASSERT_EQ(std::ssize(owners.weights[i]), owners.chunks);
        for (const auto& [chunk, value] : owners.weights[i]) {
          EXPECT_EQ(value, owners.made_of(chunk));
        }
      }
      EXPECT_EQ(owners.sent, 2 * owners.chunks * (count - 1)) << "each chunk, and each answer";
    }
  }
}

TEST(WeightGather, NoMoreChunksAreOnTheirWayThanReceiversCanHold) {
  Owners owners(2, 20, 1);
  int begun = 0;
  while (owners.compute(0)) ++begun;
  EXPECT_EQ(begun, kMostWeightChunks) << "nobody has answered";
  EXPECT_EQ(owners.gathers[0].awaited(), std::set{PeerId(11)});
  EXPECT_NE(owners.gathers[0].waiting_for().find("of step 3 in stage 0 from peer 11"),
            std::string::npos)
      << owners.gathers[0].waiting_for();
}

TEST(WeightGather, WhatComesDamagedIsSentOnceMore) {
  Owners owners(3, 9, 4);
  owners.damages_at = 1;
  owners.damages = 1;
  owners.run();
  EXPECT_EQ(owners.copies, 1);
  EXPECT_TRUE(owners.failure.ok());
  for (const auto& [chunk, value] : owners.weights[1]) EXPECT_EQ(value, owners.made_of(chunk));
  EXPECT_TRUE(owners.gathers[1].complete());
}

TEST(WeightGather, WhatComesDamagedTwiceEndsTheRun) {
  Owners owners(2, 2, 4);
  owners.damages_at = 1;
  owners.damages = 2;
  owners.run();
  EXPECT_EQ(owners.failure.code(), ExitStatus::no);
  EXPECT_NE(owners.failure.message().find("from peer 10 to peer 11 twice"), std::string::npos)
      << owners.failure.message();
  EXPECT_FALSE(owners.gathers[1].complete());
}

TEST(WeightGather, WhoIsDoneStillSendsOnceMoreWhatAnotherGotDamaged) {
  Owners owners(2, 2, 4);
  ASSERT_TRUE(owners.compute(0)) << "its own chunk";
  owners.gathers[0].receive(WeightsMessage{StageId(0), Step(3), 1, hash_of(1001), number(1001)},
                            PeerId(11));
  ASSERT_TRUE(owners.compute(0)) << "the other's";
  EXPECT_TRUE(owners.gathers[0].complete());
  EXPECT_FALSE(owners.compute(0));
  owners.gathers[0].receive(WeightsPlaced{StageId(0), Step(3), 0, false}, PeerId(11));
  ASSERT_TRUE(owners.compute(0));
  EXPECT_EQ(owners.copies, 1);
  owners.gathers[0].receive(WeightsPlaced{StageId(0), Step(3), 0, true}, PeerId(11));
  owners.gathers[0].receive(WeightsPlaced{StageId(0), Step(3), 0, false}, PeerId(11));
  EXPECT_FALSE(owners.compute(0)) << "it has said that it has them";
}

}  // namespace
}  // namespace swarmpi::weight_gather_test
