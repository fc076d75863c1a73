#include "protocol/reduction/reduction.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>

#include "core/hash.hpp"
#include "core/random.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/reduction_jobs.hpp"

namespace swarmpi::reduction_test {
namespace {

// Every element's sum is one number, which travels as the payload; the reduced chunk is it, too.
PayloadRef number(std::int64_t value) {
  auto payload = std::make_shared<Payload>(sizeof value);
  *payload->as<std::int64_t>() = value;
  return payload;
}
std::int64_t number(const PayloadRef& payload) { return *payload->as<std::int64_t>(); }

// k replicas whose messages and jobs are delivered in an order drawn from a seed.
class Replicas {
 public:
  Replicas(std::int64_t count, std::int64_t blocks, ReductionPattern pattern, std::uint64_t seed,
           std::int64_t in_flight = 8, bool own_ranges = false)
      : seed_(seed), in_flight_(in_flight) {
    const std::vector<Block> all(static_cast<std::size_t>(blocks), Block{0, 0, 4096});
    ReductionPlan plan;
    plan.seal = {Incarnation(0), Term(1), 1};
    plan.step = Step(3);
    plan.all = Cover::of_step(plan.step, count);  // each replica has the microbatch of its number
    plan.pattern = pattern;
    plan.chunks_in_flight = in_flight;
    plan.chunks = cut_into_chunks(all, count, 2 * 4096);
    if (own_ranges) {
      const OwnedChunks cut = cut_into_owned_chunks(all, count, 2 * 4096);
      plan.chunks = cut.chunks;
      plan.owners = cut.owners;
    }
    for (std::int32_t i = 0; i < count; ++i) plan.replicas.push_back(PeerId(10 + i));
    for (const PeerId peer : plan.replicas) {
      plan.self = peer;
      reductions_.emplace_back(plan);
    }
    chunks_ = static_cast<std::int64_t>(plan.chunks.size());
    shares_under_way_.resize(reductions_.size());
  }

  void run(bool twice = false) {
    while (true) {
      std::vector<std::size_t> able;  // to receive or to compute
      for (std::size_t i = 0; i < reductions_.size(); ++i) {
        if (!idle_[i]) able.push_back(i);
      }
      const std::size_t choices = able.size() + messages_.size();
      if (choices == 0) return;
      const std::size_t pick = random_bits(seed_, Stream::test, 0, draws_++) % choices;
      if (pick < able.size()) {
        compute(able[pick]);
      } else {
        deliver(pick - able.size(), twice);
      }
    }
  }

  // What each replica put in its place, chunk by chunk.
  std::map<std::size_t, std::map<std::int32_t, std::int64_t>> placed;
  std::int64_t messages_sent = 0;
  std::int64_t chunks_ = 0;
  std::int64_t most_under_way = 0;
  std::deque<Reduction> reductions_;
  std::set<std::pair<std::int32_t, std::int32_t>> pairs;

  // Faults: this replica has added microbatch 0 instead of its own; this one has bad memory.
  std::optional<std::size_t> repeats_at, damages_at;

  static std::int64_t share_of(std::size_t replica, std::int32_t chunk) {
    return 1000000 * (chunk + 1) + (1 << replica);
  }

 private:
  void compute(std::size_t i) {
    const std::optional<Job> job = reductions_[i].next_job();
    if (!job) {
      idle_[i] = true;
      return;
    }
    Outbox outbox;
    if (const auto* share = get_if<ShareJob>(&*job)) {
      ++shares_under_way_[i];
      reductions_[i].finished(ShareResult{share->seal, share->stage, share->chunk,
                                          sum(i, share->chunk, share->addends)},
                              outbox);
    } else if (const auto* reduce = get_if<ReduceJob>(&*job)) {
      const auto [payload, cover] = sum(i, reduce->chunk, reduce->addends);
      const std::int64_t total = number(payload);
      placed[i][reduce->chunk] = total;
      const std::vector<double> squares(
          static_cast<std::size_t>(reduce->blocks.end - reduce->blocks.first),
          static_cast<double>(total));
      reductions_[i].finished(ReduceResult{reduce->seal, reduce->stage, reduce->chunk, cover,
                                           squares, payload, hash_of(total)},
                              outbox);
    } else {
      const auto& place = get<PlaceJob>(*job);
      std::int64_t value = number(place.gradient);
      if (i == damages_at) ++value;
      placed[i][place.chunk] = value;
      reductions_[i].finished(PlaceResult{place.seal, place.stage, place.chunk, hash_of(value)});
    }
    post(i, outbox);
  }

  PartialSums sum(std::size_t i, std::int32_t chunk,
                  const std::vector<PartialSums>& addends) const {
    std::int64_t sum = share_of(i, chunk);
    Cover cover;
    cover.add({Step(3), Purpose::train, static_cast<std::int32_t>(i == repeats_at ? 0 : i)});
    for (const PartialSums& addend : addends) {
      sum += number(addend.sums);
      cover += addend.cover;
    }
    return {number(sum), cover};
  }
  static std::uint64_t hash_of(std::int64_t value) {
    return static_cast<std::uint64_t>(value) * 3 + 1;
  }

  void post(std::size_t from, Outbox& outbox) {
    for (Action& action : outbox.take()) {
      auto& send = get<Send>(action);
      ++messages_sent;
      pairs.insert({static_cast<std::int32_t>(from), send.to.value - 10});
      messages_.push_back({from, send});
    }
  }

  void deliver(std::size_t which, bool twice) {
    const auto [from, send] = messages_[which];
    messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(which));
    const auto to = static_cast<std::size_t>(send.to.value - 10);
    Outbox outbox;
    for (int i = 0; i < (twice ? 2 : 1); ++i) {
      if (const auto* share = get_if<ShareMessage>(&send.message.body)) {
        reductions_[to].receive(*share, PeerId(10 + static_cast<std::int32_t>(from)));
      } else {
        reductions_[to].receive(get<ChunkMessage>(send.message.body), outbox);
      }
    }
    idle_[to] = false;
    post(to, outbox);
  }

  std::uint64_t seed_;
  std::int64_t in_flight_;
  std::uint64_t draws_ = 0;
  std::map<std::size_t, bool> idle_;
  std::vector<std::int64_t> shares_under_way_;
  std::deque<std::pair<std::size_t, Send>> messages_;
};

TEST(Reduction, EveryReplicaGetsTheExactSumInAnyOrderOfEvents) {
  for (const auto pattern : {ReductionPattern::direct, ReductionPattern::ring}) {
    for (const std::int64_t count : {1, 2, 3, 5, 8}) {
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Replicas replicas(count, 37, pattern, seed, seed % 3 + 1);
        replicas.run(seed % 2 == 1);
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
          ASSERT_TRUE(replicas.reductions_[i].complete())
              << "replica " << i << " of " << count << ", seed " << seed << ": waits for "
              << replicas.reductions_[i].waiting_for();
          for (std::int32_t c = 0; c < replicas.chunks_; ++c) {
            const std::int64_t all = count * 1000000 * (c + 1) + (1 << count) - 1;
            ASSERT_EQ(replicas.placed[i][c], all) << "chunk " << c << " at replica " << i;
            ASSERT_EQ(replicas.reductions_[i].squares(), replicas.reductions_[0].squares());
          }
        }
      }
    }
  }
}

TEST(Reduction, ReplicasThatHoldTheSameGradientHaveTheSameHash) {
  Replicas replicas(3, 37, ReductionPattern::ring, 4);
  replicas.run();
  EXPECT_NE(replicas.reductions_[0].hash(), 0u);
  for (const Reduction& reduction : replicas.reductions_) {
    EXPECT_EQ(reduction.hash(), replicas.reductions_[0].hash());
    EXPECT_EQ(reduction.chunk_hashes(), replicas.reductions_[0].chunk_hashes());
  }
}

// One of the shares holds another's microbatch: as many as the step has, but not each once.
TEST(Reduction, NoChunkIsFinishedWhoseSumsAreNotOverEachMicrobatchOnce) {
  for (const auto pattern : {ReductionPattern::direct, ReductionPattern::ring}) {
    Replicas replicas(3, 37, pattern, 5);
    replicas.repeats_at = 2;
    replicas.run();
    for (std::size_t i = 0; i < 3; ++i) {
      Reduction& reduction = replicas.reductions_[i];
      EXPECT_TRUE(reduction.chunks_in_place().empty());
      const auto refused = reduction.take_refused();
      ASSERT_TRUE(refused) << "each owns a chunk";
      EXPECT_EQ(refused->cover.microbatches, 3);
      EXPECT_NE(refused->cover, Cover::of_step(Step(3), 3));
      EXPECT_FALSE(reduction.take_refused()) << "it is told once";
    }
  }
}

TEST(Reduction, AChunkThatIsNotWhatWasSentIsRefused) {
  Replicas replicas(3, 37, ReductionPattern::direct, 6);
  replicas.damages_at = 1;
  replicas.run();
  EXPECT_TRUE(replicas.reductions_[0].complete());
  EXPECT_FALSE(replicas.reductions_[1].complete());
  const auto refused = replicas.reductions_[1].take_refused();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->cover, Cover::of_step(Step(3), 3)) << "all was counted";
}

// It may have been acknowledged: were it damaged now, nobody would ask for it again.
TEST(Reduction, AChunkThatIsInPlaceIsNotPlacedAgainUnderTheNextSeal) {
  ReductionPlan plan;
  plan.step = Step(3);
  plan.all = Cover::of_step(plan.step, 2);
  plan.replicas = {PeerId(0), PeerId(1)};
  plan.self = PeerId(1);
  plan.chunks = {{0, 1}};  // peer 0 owns it
  const auto chunk = [&](std::int64_t seal) {
    return ChunkMessage{{{}, Term(1), seal}, StageId(0), 0, plan.all, {4.0}, 5, number(17)};
  };
  Outbox outbox;
  Reduction first(plan);
  first.receive(chunk(0), outbox);
  const auto place = first.next_job();
  ASSERT_TRUE(place && holds_alternative<PlaceJob>(*place));
  first.finished(PlaceResult{plan.seal, StageId(0), 0, 5});
  ASSERT_TRUE(first.complete());

  plan.seal.number = 1;
  Reduction second(plan, &first);
  EXPECT_TRUE(second.complete());
  EXPECT_EQ(second.hash(), first.hash());
  second.receive(chunk(1), outbox);
  while (const auto job = second.next_job()) {
    EXPECT_FALSE(holds_alternative<PlaceJob>(*job));
  }
}

TEST(Reduction, DirectTakesTwoHopsAndARingTalksToNeighboursOnly) {
  Replicas direct(5, 40, ReductionPattern::direct, 1);
  direct.run();
  Replicas ring(5, 40, ReductionPattern::ring, 1);
  ring.run();
  // Both send 2 (k - 1) messages a chunk; only who talks to whom differs.
  EXPECT_EQ(direct.messages_sent, direct.chunks_ * 8);
  EXPECT_EQ(ring.messages_sent, ring.chunks_ * 8);
  EXPECT_EQ(direct.pairs.size(), 20u);
  EXPECT_EQ(ring.pairs.size(), 5u);
}

TEST(Reduction, OnARingItAwaitsTheOneBeforeItAndWhoeverSendsItFinishedChunks) {
  ReductionPlan plan;
  for (std::int32_t id = 0; id < 6; ++id) plan.replicas.emplace_back(id);
  plan.chunks = cut_into_chunks(std::vector<Block>(6, Block{0, 0, 4096}), 6, 4096);
  plan.learners = {PeerId(9)};
  plan.self = PeerId(5);
  EXPECT_EQ(Reduction(plan).partners().size(), 6u) << "direct";
  plan.pattern = ReductionPattern::ring;
  EXPECT_EQ(Reduction(plan).partners(), FlatSet{PeerId(4)});
  plan.senders = {PeerId(2)};
  EXPECT_EQ(Reduction(plan).partners(), (FlatSet{PeerId(4), PeerId(2)}));
  plan.self = PeerId(9);
  EXPECT_EQ(Reduction(plan).partners().size(), 6u) << "each owns a chunk that a learner gets";
}

// Under the seal before, peers 0 and 1 have finished chunk 0; peer 2, which had a share, is dead.
TEST(Reduction, WhoHasAFinishedChunkAndIsNotToSendItWaitsForNobody) {
  ReductionPlan plan;
  plan.step = Step(3);
  plan.all = Cover::of_step(plan.step, 3);
  plan.replicas = {PeerId(0), PeerId(1), PeerId(3)};
  plan.self = PeerId(1);
  plan.chunks = {{0, 1}};
  Outbox outbox;
  Reduction first(plan);
  first.receive(ChunkMessage{plan.seal, StageId(0), 0, plan.all, {4.0}, 5, number(17)}, outbox);
  ASSERT_TRUE(first.next_job());
  first.finished(PlaceResult{plan.seal, StageId(0), 0, 5});

  plan.seal.number = 1;
  plan.finished_chunks = Bitmap(1);
  plan.finished_chunks.insert(0);
  Reduction second(plan, &first);
  EXPECT_TRUE(second.complete());
  EXPECT_FALSE(second.next_job()) << "peer 0 sends it to peer 3";
  EXPECT_EQ(second.waiting_for(), "");
}

TEST(Reduction, APeerThatIsAloneSendsNothing) {
  Replicas alone(1, 10, ReductionPattern::direct, 1);
  alone.run();
  EXPECT_TRUE(alone.reductions_[0].complete());
  EXPECT_EQ(alone.chunks_, 1);
  EXPECT_EQ(alone.messages_sent, 0);
}

// Each peer waits for the results of its first shares before it sends more.
TEST(Reduction, WhereEachOwnsARangeResultsStayWithTheirOwnersAndAllKnowTheSquares) {
  for (const auto pattern : {ReductionPattern::direct, ReductionPattern::ring}) {
    for (const std::int64_t count : {1, 2, 3, 11}) {
      Replicas replicas(count, 24, pattern, static_cast<std::uint64_t>(count), 2, true);
      replicas.run(count == 3);
      std::size_t results = 0;
      for (std::size_t i = 0; i < replicas.reductions_.size(); ++i) {
        const Reduction& reduction = replicas.reductions_[i];
        ASSERT_TRUE(reduction.complete()) << reduction.waiting_for();
        EXPECT_EQ(reduction.squares(), replicas.reductions_[0].squares());
        EXPECT_EQ(reduction.hash(), replicas.reductions_[0].hash());
        EXPECT_NE(reduction.hash(), 0u) << "they are compared";
        results += replicas.placed[i].size();
        for (const auto& [chunk, value] : replicas.placed[i]) {
          EXPECT_EQ(reduction.plan().owners[static_cast<std::size_t>(chunk)],
                    static_cast<std::int64_t>(i));
        }
      }
      EXPECT_EQ(static_cast<std::int64_t>(results), replicas.chunks_) << "one of each";
    }
  }
}

// A new leader seals anew what is being reduced: who has not heard that a chunk is finished is
// told by one that has.
TEST(Reduction, WhatIsFinishedWithItsOwnerIsToldOnAfterAnotherSeal) {
  const std::vector<Block> blocks(4, Block{0, 0, 4096});
  const OwnedChunks cut = cut_into_owned_chunks(blocks, 2, 8192);
  ReductionPlan plan;
  plan.replicas = {PeerId(10), PeerId(11)};
  plan.self = PeerId(10);
  plan.chunks = cut.chunks;
  plan.owners = cut.owners;
  Reduction before(plan);
  Outbox outbox;
  const std::vector<double> squares = {4, 9};
  const std::uint64_t hash = hash_bytes(squares.data(), sizeof(double) * squares.size());
  before.receive(ChunkMessage{{}, StageId(0), 1, plan.all, {4, 8}, hash, nullptr}, outbox);
  EXPECT_TRUE(before.take_refused()) << "they are not what was sent";
  before.receive(ChunkMessage{{}, StageId(0), 1, plan.all, squares, hash, nullptr}, outbox);
  plan.finished_chunks = Bitmap(2);
  plan.finished_chunks.insert(1);
  plan.to_send = {{1, {PeerId(11)}}};
  Reduction after(plan, &before);
  after.tell_finished(outbox);
  const Actions told = outbox.take();
  ASSERT_EQ(told.size(), 1u);
  const auto& message = get<ChunkMessage>(get<Send>(told[0]).message.body);
  EXPECT_EQ(message.chunk, 1);
  EXPECT_EQ(message.squares, squares);
  EXPECT_EQ(message.hash, hash);
  const std::optional<Job> next = after.next_job();
  EXPECT_FALSE(next && holds_alternative<GatherJob>(*next)) << "nothing is here to be copied";
}

TEST(Reduction, BoundsWhatIsOnTheWay) {
  ReductionPlan plan;
  plan.replicas = {PeerId(0), PeerId(1)};
  plan.self = PeerId(0);
  plan.chunks = cut_into_chunks(std::vector<Block>(64, Block{0, 0, 4096}), 2, 4096);
  plan.chunks_in_flight = 3;
  Reduction reduction(plan);
  Outbox outbox;
  int handed_out = 0;
  while (const auto job = reduction.next_job()) {
    ASSERT_TRUE(holds_alternative<ShareJob>(*job)) << "nothing came from the other yet";
    ++handed_out;
  }
  EXPECT_EQ(handed_out, 3) << "shares whose result has not come";
  EXPECT_NE(reduction.waiting_for().find("no share has come from peer 1"), std::string::npos)
      << reduction.waiting_for();
}

TEST(Chunks, CoverAllBlocksAndGiveEveryReplicaSome) {
  std::vector<Block> blocks;
  for (int t = 0; t < 12; ++t) {
    blocks.push_back({t, 0, 4096});
    blocks.push_back({t, 4096, 128});
  }
  for (const std::int64_t replicas : {1, 2, 3, 7}) {
    const auto chunks = cut_into_chunks(blocks, replicas, 8192);
    std::int64_t end = 0;
    for (const BlockRange& chunk : chunks) {
      EXPECT_EQ(chunk.first, end);
      EXPECT_LT(chunk.first, chunk.end);
      end = chunk.end;
    }
    EXPECT_EQ(end, static_cast<std::int64_t>(blocks.size()));
    EXPECT_GE(static_cast<std::int64_t>(chunks.size()), replicas);
  }
  EXPECT_EQ(cut_into_chunks(blocks, 1, 8192).size(), 1u) << "nothing to share out";
}

TEST(Chunks, AreAQuarterOfAReplicasPartButNeitherTinyNorHuge) {
  constexpr std::int64_t kStage = 100'000'000;
  EXPECT_EQ(chunk_elements(kStage, 24), (kStage + 95) / 96);
  EXPECT_EQ(chunk_elements(kStage, 125), kStage / 125) << "one a replica, for each goes to all";
  EXPECT_EQ(chunk_elements(kStage, 2), 1 << 20);
  EXPECT_EQ(chunk_elements(kStage, 1000), 1 << 17);
  EXPECT_EQ(chunk_elements(5000, 3), 1 << 17);
  const std::vector<Block> blocks(2048, Block{0, 0, 4096});
  EXPECT_EQ(cut_into_chunks(blocks, 4, std::nullopt).size(), 16u);
}

TEST(Chunks, OfOwnersMakeUpEvenRangesThatDoNotDependOnTheirSize) {
  std::vector<Block> blocks(60, Block{0, 0, 4096});
  blocks.push_back({1, 0, 17});
  for (const std::int64_t owners : {1, 2, 7, 70}) {
    const std::vector<BlockRange> ranges = owned_ranges(blocks, owners);
    ASSERT_EQ(std::ssize(ranges), owners);
    for (const std::int64_t most : {4096, 8192, 1 << 20}) {
      const auto [chunks, places] = cut_into_owned_chunks(blocks, owners, most);
      std::vector<BlockRange> owned(ranges.size());
      std::int64_t end = 0;
      for (std::size_t c = 0; c < chunks.size(); ++c) {
        EXPECT_EQ(chunks[c].first, end);
        EXPECT_LE(elements_of(blocks, chunks[c]), most);
        end = chunks[c].end;
        BlockRange& range = owned[static_cast<std::size_t>(places[c])];
        if (range.end == 0) range.first = chunks[c].first;
        range.end = end;
      }
      EXPECT_EQ(end, std::ssize(blocks));
      for (std::size_t p = 0; p < ranges.size(); ++p) {
        const std::int64_t elements = elements_of(blocks, ranges[p]);
        EXPECT_EQ(elements_of(blocks, owned[p]), elements);
        if (elements > 0) {
          EXPECT_EQ(owned[p], ranges[p]);
        }
        EXPECT_NEAR(static_cast<double>(elements), 60.0 * 4096 / static_cast<double>(owners), 4113);
      }
    }
  }
}

TEST(Blocks, NumberTheElementsOfAllTensors) {
  const std::vector<std::int64_t> elements = {5000, 7, 4096};
  const auto blocks = cut_into_blocks(elements);
  ASSERT_EQ(blocks.size(), 4u);
  EXPECT_EQ(blocks[1].tensor, 0);
  EXPECT_EQ(blocks[1].first, 4096);
  EXPECT_EQ(blocks[1].count, 904);
  EXPECT_EQ(elements_of(blocks, {1, 4}), 904 + 7 + 4096);
  const std::vector<double> values = {1, 2, 4, 8};
  EXPECT_EQ(sum_by_tensor(blocks, {values}, 3), (std::vector<double>{3, 4, 8}));
}

// Replicas 10 and 11, and 12, which learns; one chunk a replica.
ReductionPlan collective_plan(std::int32_t self) {
  ReductionPlan plan;
  plan.seal = {Incarnation(0), Term(1), 1};
  plan.step = Step(3);
  plan.all = Cover::of_step(plan.step, 2);
  plan.chunks = {{0, 1}, {1, 2}};
  plan.chunk_replicas = 2;
  plan.replicas = {PeerId(10), PeerId(11)};
  plan.learners = {PeerId(12)};
  plan.collective = ViewNumber{Term(1), 5};
  plan.self = PeerId(self);
  return plan;
}

TEST(Reduction, ByACollectiveEachReplicaRoundsAllChunksAndOwnersTellTheLearners) {
  Reduction reduction(collective_plan(10));
  EXPECT_FALSE(reduction.next_job()) << "the sums are not here";
  EXPECT_NE(reduction.waiting_for(), "");
  reduction.collective_is_done(Cover::of_step(Step(3), 2));
  Outbox outbox;
  for (const std::int32_t chunk : {0, 1}) {
    const std::optional<Job> job = reduction.next_job();
    ASSERT_TRUE(job);
    const auto& round = get<ReduceJob>(*job);
    EXPECT_EQ(round.collective, (ViewNumber{Term(1), 5}));
    EXPECT_TRUE(round.addends.empty());
    EXPECT_EQ(round.pass_on, chunk == 0) << "the other is another owner's to tell";
    reduction.finished(
        ReduceResult{
            round.seal, round.stage, round.chunk, Cover::of_step(Step(3), 2), {4.0}, number(7), 9},
        outbox);
  }
  EXPECT_TRUE(reduction.complete());
  EXPECT_NE(reduction.hash(), 0u) << "to be compared with the other's";
  const Actions sent = outbox.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(get<Send>(sent[0]).to, PeerId(12));
}

TEST(Reduction, ALearnerGetsTheChunksOfACollectiveFromTheirOwners) {
  Reduction reduction(collective_plan(12));
  Outbox outbox;
  EXPECT_FALSE(reduction.by_collective());
  for (const std::int32_t chunk : {0, 1}) {
    reduction.receive(ChunkMessage{{}, {}, chunk, Cover::of_step(Step(3), 2), {4.0}, 9, number(7)},
                      outbox);
    const auto place = get<PlaceJob>(reduction.next_job().value());
    reduction.finished(PlaceResult{place.seal, place.stage, place.chunk, 9});
  }
  EXPECT_TRUE(reduction.complete());
}

TEST(Reduction, WhatACollectiveHasCountedWronglyIsNoResult) {
  Reduction reduction(collective_plan(11));
  const Cover wrong = Cover::of_step(Step(3), 3);
  reduction.collective_is_done(wrong);
  EXPECT_FALSE(reduction.next_job());
  const auto refused = reduction.take_refused();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->cover, wrong);
}

TEST(Reduction, OfACollectiveThatIsOverNoMoreIsTaken) {
  Reduction reduction(collective_plan(11));
  reduction.collective_is_done(Cover::of_step(Step(3), 2));
  ASSERT_TRUE(reduction.next_job());
  reduction.collective_is_over();
  EXPECT_FALSE(reduction.next_job());
}

}  // namespace
}  // namespace swarmpi::reduction_test
