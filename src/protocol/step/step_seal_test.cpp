#include "protocol/step/step_seal.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/seal.hpp"

namespace swarmpi::step_seal_test {
namespace {

Bitmap of(const std::vector<std::int64_t>& indices, std::int64_t size = 5) {
  Bitmap bitmap(size);
  for (const std::int64_t index : indices) bitmap.insert(index);
  return bitmap;
}

// Peers 0, 1 and 4 serve stage 0, which peer 3 learns; peer 2 serves stage 1.
struct Scene {
  Scene() {
    SealedStage first;
    first.stage = StageId(0);
    first.seal = {Incarnation(1), Term(3), 8};
    first.replicas = {PeerId(0), PeerId(1), PeerId(4)};
    first.learners = {PeerId(3)};
    first.shares = {{PeerId(0), of({0, 2, 4})}, {PeerId(4), of({1, 3})}};
    first.chunk_replicas = 3;
    first.chunks = 6;
    first.finished = {{1, PeerId(4), {PeerId(1), PeerId(3)}}, {5, PeerId(0), {}}};
    first.attempt = 1;
    seal.add(first);
    SealedStage second;
    second.stage = StageId(1);
    second.replicas = {PeerId(2)};
    second.shares = {{PeerId(2), of({0, 1, 2, 3, 4})}};
    second.chunk_replicas = 1;
    seal.add(second);
  }
  StageSeal part_of(std::int32_t peer) const { return seal.message_for(PeerId(peer)).stages.at(0); }
  std::shared_ptr<const StepFacts> facts = std::make_shared<const StepFacts>();
  StepSeal seal{Step(2), false, facts};
};

TEST(StepSeal, TellsEachPeerItsOwnShareAndTheListsOfItsStage) {
  const Scene scene;
  const SealMessage message = scene.seal.message_for(PeerId(4));
  ASSERT_EQ(message.stages.size(), 1u);
  const StageSeal& own = message.stages[0];
  EXPECT_EQ(message.step, Step(2));
  EXPECT_EQ(own.stage, StageId(0));
  EXPECT_EQ(own.seal, (SealId{Incarnation(1), Term(3), 8}));
  EXPECT_EQ(own.replicas, (std::vector{PeerId(0), PeerId(1), PeerId(4)}));
  EXPECT_EQ(own.learners, (std::vector{PeerId(3)}));
  EXPECT_EQ(own.microbatches, of({1, 3}));
  EXPECT_EQ(own.chunk_replicas, 3);
  EXPECT_EQ(own.attempt, 1);
  EXPECT_EQ(scene.part_of(1).microbatches.count(), 0) << "it has contributed nothing";
}

std::vector<PeerId> peers(std::int32_t first, std::int32_t end) {
  std::vector<PeerId> ids;
  for (std::int32_t id = first; id < end; ++id) ids.emplace_back(id);
  return ids;
}

// Half-way round a ring each chunk is with its owner and with those behind it. Of 10 chunks one is
// the second of its holders, for its owner is gone.
TEST(StepSeal, FinishedChunksAreSentByAllWhoHaveAnyAboutAsOften) {
  constexpr std::int32_t kPeers = 9, kChunks = 10, kHolders = 4;
  ChunkHolders holders;
  for (std::int32_t chunk = 0; chunk < kChunks; ++chunk) {
    for (std::int32_t i = 0; i < kHolders; ++i) holders[chunk].insert(PeerId((chunk + i) % kPeers));
  }
  std::map<PeerId, std::size_t> sent;
  std::set<std::pair<std::int32_t, PeerId>> received, sends;
  for (const ChunkFact& fact : deal_out(holders, peers(0, kPeers))) {
    EXPECT_TRUE(holders[fact.chunk].contains(fact.from));
    EXPECT_TRUE(sends.insert({fact.chunk, fact.from}).second) << "it is told once a chunk";
    sent[fact.from] += fact.to.size();
    for (const PeerId peer : fact.to) {
      EXPECT_FALSE(holders[fact.chunk].contains(peer));
      EXPECT_TRUE(received.insert({fact.chunk, peer}).second) << "it gets each chunk once";
    }
  }
  EXPECT_EQ(received.size(), static_cast<std::size_t>(kChunks * (kPeers - kHolders)));
  for (const auto& [peer, count] : sent) EXPECT_LE(count, 7u) << "50 / 9, and one";
}

TEST(StepSeal, WhoAloneHasAFinishedChunkSendsNoneThatOthersHave) {
  const ChunkHolders holders = {{0, {PeerId(0), PeerId(1)}}, {1, {PeerId(0)}}};
  std::map<PeerId, std::size_t> sent;
  for (const ChunkFact& fact : deal_out(holders, peers(0, 10))) sent[fact.from] += fact.to.size();
  EXPECT_EQ(sent[PeerId(0)], 9u);
  EXPECT_EQ(sent[PeerId(1)], 8u);
}

TEST(StepSeal, AFinishedChunkThatOneAloneHasComesFromThatOneAndOneThatAllHaveFromNobody) {
  const ChunkHolders holders = {{0, {PeerId(2)}}, {1, {PeerId(0), PeerId(1), PeerId(2)}}};
  const std::vector<ChunkFact> dealt = deal_out(holders, peers(0, 3));
  ASSERT_EQ(dealt.size(), 2u);
  EXPECT_EQ(dealt[0].from, PeerId(2));
  EXPECT_EQ(dealt[0].to, peers(0, 2));
  EXPECT_TRUE(dealt[1].to.empty());
  EXPECT_TRUE(deal_out({}, peers(0, 3)).empty());
}

// Whoever has a finished chunk, and is neither to send nor to receive it, would else wait for
// shares that nobody sends.
TEST(StepSeal, TellsEveryPeerOfTheStageWhichChunksAreFinished) {
  const Scene scene;
  for (const std::int32_t peer : {0, 1, 3, 4}) {
    EXPECT_EQ(scene.part_of(peer).finished_chunks, of({1, 5}, 6)) << peer;
  }
  EXPECT_EQ(scene.part_of(2).finished_chunks.size(), 0) << "in its stage none is";
}

TEST(StepSeal, TellsWhoHasAFinishedChunkToSendItAndWhoLacksItFromWhomItComes) {
  const Scene scene;
  ASSERT_EQ(scene.part_of(4).to_send.size(), 1u);
  EXPECT_EQ(scene.part_of(4).to_send[0].chunk, 1);
  EXPECT_EQ(scene.part_of(4).to_send[0].to, (std::vector{PeerId(1), PeerId(3)}));
  EXPECT_TRUE(scene.part_of(0).to_send.empty()) << "nobody lacks chunk 5";
  EXPECT_EQ(scene.part_of(1).senders, (std::vector{PeerId(4)}));
  EXPECT_EQ(scene.part_of(3).senders, (std::vector{PeerId(4)}));
  EXPECT_TRUE(scene.part_of(0).senders.empty());
}

// If the leader dies, and with it all whose stage is sealed, the others still know what the step
// came to: chunks of it may be finished.
TEST(StepSeal, TellsTheFactsAlsoToThoseWhoseStageIsNotSealed) {
  StepSeal seal(Step(2), true, std::make_shared<const StepFacts>());
  SealedStage only;
  only.replicas = {PeerId(2)};
  seal.add(only);
  const SealMessage message = seal.message_for(PeerId(0));
  EXPECT_TRUE(message.stages.empty());
  EXPECT_EQ(message.facts, seal.facts());
  EXPECT_TRUE(message.skipped);
}

}  // namespace
}  // namespace swarmpi::step_seal_test
