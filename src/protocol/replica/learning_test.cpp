#include "protocol/replica/learning.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "protocol/messages/learning.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/replica/piece_requests.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::learning_test {
namespace {

const StageId kStage(0);
const PeerId kSelf(2);
const std::vector<PeerId> kDonors{PeerId(0), PeerId(1)};
constexpr std::int64_t kBlock = 4096;

// Two tensors, of two blocks and of one; a piece is a block, and as large as two.
RunPlan three_blocks(std::int64_t piece_blocks = 1) {
  RunPlan plan;
  plan.stage_tensors = {{0, 1}};
  plan.tensor_elements = {2 * kBlock, kBlock};
  plan.torture_only.piece_elements = piece_blocks * kBlock;
  return plan;
}

CommitRef commit(std::int64_t step, bool skipped = false) {
  auto record = std::make_shared<CommitRecord>();
  record->step = Step(step);
  record->skipped = skipped;
  return record;
}

PayloadRef gradient(std::size_t size_bytes = 8) { return std::make_shared<Payload>(size_bytes); }

struct Scene {
  explicit Scene(const RunPlan& of = three_blocks()) : plan(of) {
    learning.allocating();
    learning.allocated();
  }
  std::vector<std::pair<PeerId, FetchMessage>> ask(double now_s = 0,
                                                   const std::vector<PeerId>& donors = kDonors) {
    return learning.ask(kSelf, donors, now_s);
  }
  void comes(std::int64_t block, std::int64_t step, double now_s = 0, PeerId from = PeerId(0)) {
    learning.receive({kStage, {block, block + 1}, Step(step), 7, nullptr}, from, now_s);
  }
  // Writes what can be written after this step; how many pieces that was.
  int writes(std::int64_t applied) {
    int written = 0;
    while (const auto job = learning.next_write(Step(applied))) {
      last = *job;
      ++written;
      const std::vector<std::uint64_t> hashes(job->completes.size(), 70 + job->blocks.first);
      learning.written({kStage, job->blocks, true, job->completes, hashes});
    }
    return written;
  }
  std::optional<PartialState> applies(std::int64_t step, bool has_gradient = true) {
    const CommitRef record = commit(step);
    EXPECT_TRUE(learning.may_update(*record, has_gradient));
    auto partial = learning.begin_update(record, has_gradient);
    ApplyResult result{Step(step), kStage, {{1, 2}, {}}, {}, {}};
    const std::size_t kept = partial ? partial->under_way.size() : 0;
    for (std::size_t i = 0; i < kept; ++i) result.gradients.push_back(gradient());
    learning.updated(result);
    return partial;
  }
  void learns_all(std::int64_t step) {
    ask();
    for (std::int64_t block = 0; block < 3; ++block) {
      comes(block, step);
      writes(step);
      ask();
    }
    ASSERT_TRUE(learning.complete());
  }

  RunPlan plan;
  std::vector<Block> blocks = cut_into_blocks(plan.elements_in(kStage));
  Learning learning{plan, kStage, blocks, Step(5)};
  WriteJob last;
};

TEST(Learning, AsksForTwoPiecesOfDonorsInTurn) {
  Scene waiting;
  Learning without_memory(waiting.plan, kStage, waiting.blocks, Step(5));
  EXPECT_TRUE(without_memory.ask(kSelf, kDonors, 0).empty());
  Scene scene;
  const auto first = scene.ask();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_NE(first[0].first, first[1].first);
  EXPECT_EQ(first[0].second.blocks, (BlockRange{0, 1}));
  EXPECT_EQ(first[0].second.at_least, Step(5));
  EXPECT_EQ(scene.learning.asked(), (std::set<PeerId>{PeerId(0), PeerId(1)}));
  EXPECT_TRUE(scene.ask().empty()) << "two are under way";
  scene.comes(1, 5);
  EXPECT_EQ(scene.ask().size(), 1u);
}

TEST(Learning, APieceMayHoldSeveralTensors) {
  const Scene scene(three_blocks(3));
  EXPECT_EQ(scene.learning.pieces(), 1u);
  EXPECT_EQ(Scene(three_blocks(2)).learning.pieces(), 2u);
}

// 12 kB each over a line of 480 kB/s and 0.1 s: it holds four more than the two.
TEST(Learning, ALongLineHoldsMore) {
  RunPlan plan = three_blocks();
  plan.tensor_elements = {40 * kBlock, kBlock};
  Scene scene(plan);
  const double piece_s = 12.0 * kBlock / 480e3;
  double line_free_s = 0;
  std::map<std::int64_t, double> arrives_s;
  std::size_t most = 0;
  for (double now_s = 0; now_s < 30 * piece_s + 1; now_s += 1e-3) {
    for (const auto& [donor, request] : scene.ask(now_s)) {
      line_free_s = std::max(line_free_s, now_s + 0.05) + piece_s;
      arrives_s[request.blocks.first] = line_free_s + 0.05;
    }
    most = std::max(most, arrives_s.size());
    while (!arrives_s.empty() && arrives_s.begin()->second <= now_s) {
      scene.comes(arrives_s.begin()->first, 5, now_s);
      arrives_s.erase(arrives_s.begin());
      scene.writes(5);
    }
  }
  EXPECT_GE(most, 3u);
  EXPECT_LE(most, 6u);
  EXPECT_GE(static_cast<double>(scene.learning.pieces_here()), 28) << "the line is never idle";
}

TEST(Learning, WhatADeadDonorOwesIsAskedOfAnother) {
  Scene scene;
  scene.ask();
  View view;
  view.serve(PeerId(1), kStage);
  scene.learning.forget_donors(view);
  const auto again = scene.ask(0, {PeerId(1)});
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].first, PeerId(1));
}

// A step that is ahead is waited for; of one that is behind nothing is lost.
TEST(Learning, APieceIsBroughtUpToDate) {
  Scene scene;
  scene.ask();
  scene.comes(0, 6);
  EXPECT_EQ(scene.writes(5), 0);
  const auto first = scene.applies(6);
  EXPECT_EQ(first->under_way, (std::vector<BlockRange>{{1, 2}})) << "the other has the update";
  EXPECT_TRUE(first->here.empty());
  EXPECT_EQ(scene.writes(6), 1);
  EXPECT_TRUE(scene.last.missed.empty());
  const auto second = scene.applies(7);
  EXPECT_EQ(second->here, (std::vector<BlockRange>{{0, 1}}));
  scene.comes(1, 5);
  EXPECT_EQ(scene.writes(7), 1);
  ASSERT_EQ(scene.last.missed.size(), 2u);
  EXPECT_EQ(scene.last.step, Step(5));
  EXPECT_EQ(scene.last.missed[0].record->step, Step(6));
  EXPECT_EQ(scene.last.missed[1].record->step, Step(7));
  EXPECT_EQ(scene.last.completes, std::vector<std::int32_t>{0});
}

TEST(Learning, APieceThatComesWhileAnUpdateRunsMissesIt) {
  Scene scene;
  scene.ask();
  const CommitRef record = commit(6);
  const auto partial = scene.learning.begin_update(record, true);
  ASSERT_EQ(partial->under_way.size(), 2u);
  scene.comes(0, 5);
  scene.comes(1, 6);
  const auto late = scene.ask();
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].second.at_least, Step(6)) << "it has no part in the update that runs";
  scene.learning.updated({Step(6), kStage, {{0, 0}, {}}, {gradient(), gradient()}, {}});
  EXPECT_EQ(scene.writes(6), 2);
  EXPECT_TRUE(scene.last.missed.empty()) << "the second has it";
}

TEST(Learning, AnUpdateWithoutTheGradientLosesThePieces) {
  Scene scene;
  scene.learns_all(5);
  EXPECT_EQ(scene.learning.hashes(), (std::vector<std::uint64_t>{71, 72}));
  EXPECT_FALSE(scene.applies(6)) << "all of it";
  EXPECT_TRUE(scene.learning.complete());
  EXPECT_EQ(scene.learning.hashes(), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_TRUE(scene.applies(7, false)->here.empty());
  EXPECT_FALSE(scene.learning.complete());
  const auto again = scene.ask();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].second.at_least, Step(7));
  scene.comes(0, 6);
  EXPECT_EQ(scene.writes(7), 0) << "asked for before";
}

TEST(Learning, ADamagedPieceIsAskedOfAnotherDonor) {
  Scene scene;
  const PeerId donor = scene.ask()[0].first;
  scene.comes(0, 5, 0, donor);
  const auto job = scene.learning.next_write(Step(5));
  scene.learning.written({kStage, job->blocks, false, {}, {}});
  for (int times = 0; times < 3; ++times) {
    for (const auto& [peer, request] : scene.ask()) {
      if (request.blocks.first == 0) {
        EXPECT_NE(peer, donor);
      }
    }
  }
}

TEST(Learning, AnUpdateWaitsWhereItsGradientCannotBeKept) {
  RunPlan plan = three_blocks();
  plan.torture_only.kept_gradient_bytes = 10;
  Scene scene(plan);
  scene.ask();
  scene.applies(6);  // 8 bytes for each of two pieces
  EXPECT_FALSE(scene.learning.may_update(*commit(7), true));
  EXPECT_TRUE(scene.learning.may_update(*commit(7), false)) << "nothing is kept then";
  scene.comes(0, 5);
  scene.writes(6);
  EXPECT_TRUE(scene.learning.may_update(*commit(7), true));
}

TEST(Learning, AnUpdateWaitsForTheRatios) {
  RunPlan plan = three_blocks();
  plan.train.optimizer = Optimizer::lamb;
  Scene scene(plan);
  scene.ask();
  EXPECT_FALSE(scene.learning.may_update(*commit(6), true));
  EXPECT_TRUE(scene.learning.may_update(*commit(6, true), true));
  EXPECT_TRUE(scene.learning.may_update(*commit(6), false));
  scene.learning.receive(RatiosMessage{kStage, Step(6), {0.5f, 2}});
  EXPECT_EQ(scene.applies(6)->ratios, (std::vector<float>{0.5f, 2}));
  scene.comes(0, 5);
  scene.writes(6);
  ASSERT_EQ(scene.last.missed.size(), 1u);
  EXPECT_EQ(scene.last.missed[0].ratios, (std::vector<float>{0.5f, 2}));
  scene.learns_all(6);
  EXPECT_TRUE(scene.learning.may_update(*commit(7), true)) << "it makes its own";
}

TEST(PieceRequests, AreAnsweredOnceTheStageIsOfTheStep) {
  PieceRequests requests;
  requests.receive({kStage, {3, 4}, Step(6)}, PeerId(9));
  const auto at = [](std::int64_t step) {
    return [step](StageId) { return std::optional(Step(step)); };
  };
  EXPECT_FALSE(requests.next(at(5)));
  const auto job = requests.next(at(7));
  ASSERT_TRUE(job);
  EXPECT_EQ(job->blocks, (BlockRange{3, 4}));
  const auto [learner, piece] = requests.read({kStage, {3, 4}, 5, nullptr});
  EXPECT_EQ(learner, PeerId(9));
  EXPECT_EQ(piece.step, Step(7)) << "the state that was read";
  EXPECT_EQ(piece.hash, 5u);
  EXPECT_FALSE(requests.next(at(7)));
}

TEST(Learning, WhatIsLostMakesRoomForWhatIsAskedForAnew) {
  RunPlan plan = three_blocks();
  plan.tensor_elements = {40 * kBlock, kBlock};
  Scene scene(plan);
  std::int64_t asked = 0;
  for (auto requests = scene.ask(); !requests.empty(); requests = scene.ask()) {
    for (const auto& [donor, request] : requests) scene.comes(request.blocks.first, 5);
    asked += std::ssize(requests);
  }
  EXPECT_EQ(asked, kMostPieces) << "all wait to be written";
  scene.applies(6, false);
  EXPECT_EQ(scene.ask().size(), 2u) << "without its gradient they are of no use";
}

TEST(FetchWindow, WhatHasComeAndIsNotWrittenCountsForTheMemoryOfTheLearner) {
  constexpr std::int64_t kBytes = 10;
  FetchWindow window(kBytes);
  std::int64_t came = 0;
  for (double now_s = 0; window.has_room(kBytes) && came < 100; ++now_s, ++came) {
    window.receive(window.ask(kBytes, now_s), kBytes, now_s + 1);
  }
  EXPECT_EQ(came, 16);
  window.release(kBytes);
  EXPECT_TRUE(window.has_room(kBytes));
}

}  // namespace
}  // namespace swarmpi::learning_test
