#include "protocol/membership/view.hpp"

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace swarmpi::view_test {
namespace {

std::vector<PeerId> peers(std::int32_t first, std::int32_t end) {
  std::vector<PeerId> ids;
  for (std::int32_t id = first; id < end; ++id) ids.emplace_back(id);
  return ids;
}

std::vector<std::size_t> replica_counts(const View& view, std::size_t stages) {
  std::vector<std::size_t> counts;
  for (std::size_t s = 0; s < stages; ++s) {
    counts.push_back(view.replicas(StageId(static_cast<std::int32_t>(s))).size());
  }
  return counts;
}

using Counts = std::vector<std::size_t>;

TEST(View, OnePeerServesEverything) {
  const View view = deal_peers(peers(0, 1), {}, {1, 1, 1});
  EXPECT_EQ(view.leader(), PeerId(0));
  EXPECT_EQ(replica_counts(view, 3), (Counts{1, 1, 1}));
}

TEST(View, FewPeersServeNeighbouringStages) {
  const View view = deal_peers(peers(0, 2), {}, {1, 1, 1, 1, 1});
  EXPECT_EQ(view.members().at(PeerId(0)), (std::set<StageId>{StageId(0), StageId(1)}));
  EXPECT_EQ(view.members().at(PeerId(1)), (std::set<StageId>{StageId(2), StageId(3), StageId(4)}));
}

TEST(View, SeatsFollowCostsByLargestRemainder) {
  EXPECT_EQ(replica_counts(deal_peers(peers(0, 8), {}, {1, 1, 2}), 3), (Counts{2, 2, 4}));
  EXPECT_EQ(replica_counts(deal_peers(peers(0, 7), {}, {1, 1, 1}), 3), (Counts{3, 2, 2}));
  EXPECT_EQ(replica_counts(deal_peers(peers(0, 7), {}, {1, 1, 1.5}), 3), (Counts{2, 2, 3}));
}

TEST(View, ACheapStageStillHasOnePeer) {
  EXPECT_EQ(replica_counts(deal_peers(peers(0, 4), {}, {0, 100, 100}), 3), (Counts{1, 2, 1}));
  EXPECT_EQ(replica_counts(deal_peers(peers(0, 3), {}, {0, 0, 0}), 3), (Counts{1, 1, 1}));
}

TEST(View, EveryPeerHasOneStageAndEveryStageAPeer) {
  for (std::uint32_t trial = 0; trial < 200; ++trial) {
    const std::size_t stages = 1 + trial % 7;
    std::vector<double> costs(stages);
    for (std::size_t s = 0; s < stages; ++s) {
      costs[s] = static_cast<double>(random_bits(2, Stream::test, trial, s) % 20);
    }
    const auto count = static_cast<std::int32_t>(stages + trial % 11);
    const View view = deal_peers(peers(0, count), {}, costs);
    ASSERT_EQ(view.members().size(), static_cast<std::size_t>(count));
    for (const auto& [peer, served] : view.members()) EXPECT_EQ(served.size(), 1u);
    for (const std::size_t replicas : replica_counts(view, stages)) EXPECT_GE(replicas, 1u);
  }
}

TEST(View, SparesServeNothingButMayLead) {
  const View view = deal_peers(peers(1, 4), {PeerId(0)}, {1, 1});
  EXPECT_EQ(view.leader(), PeerId(0));
  EXPECT_TRUE(view.members().at(PeerId(0)).empty());
  EXPECT_FALSE(view.serves(PeerId(0), StageId(0)));
  EXPECT_TRUE(view.serves(PeerId(1), StageId(0)));
  EXPECT_FALSE(view.serves(PeerId(9), StageId(0)));
}

TEST(View, TheOrderInWhichWorkersAreNamedDoesNotMatter) {
  const std::vector<PeerId> shuffled = {PeerId(2), PeerId(0), PeerId(3), PeerId(1)};
  EXPECT_EQ(deal_peers(shuffled, {}, {1, 2}).members(),
            deal_peers(peers(0, 4), {}, {1, 2}).members());
}

std::set<StageId> only(std::int32_t stage) { return {StageId(stage)}; }

TEST(Pins, GiveTheFirstPeersTheirStage) {
  const View view = deal_peers(peers(0, 4), {PeerId(4)}, {1, 1, 2}, {2, 0, 2, 1});
  EXPECT_EQ(view.members().at(PeerId(0)), only(2));
  EXPECT_EQ(view.members().at(PeerId(1)), only(0));
  EXPECT_EQ(view.members().at(PeerId(2)), only(2));
  EXPECT_EQ(view.members().at(PeerId(3)), only(1));
  EXPECT_TRUE(view.members().at(PeerId(4)).empty());
}

TEST(Pins, TheOthersFillWhatIsLeftOfTheProportion) {
  const View view = deal_peers(peers(0, 8), {}, {1, 1, 2}, {2, 2, 0});
  EXPECT_EQ(view.members().at(PeerId(0)), only(2));
  EXPECT_EQ(view.members().at(PeerId(2)), only(0));
  EXPECT_EQ(replica_counts(view, 3), (Counts{2, 2, 4}));
}

TEST(Pins, AStageWithMoreThanItsShareLeavesTheRestToTheOthers) {
  EXPECT_EQ(replica_counts(deal_peers(peers(0, 8), {}, {1, 1, 2}, {0, 0, 0, 0, 0}), 3),
            (Counts{5, 1, 2}));
  EXPECT_EQ(replica_counts(deal_peers(peers(0, 4), {}, {1, 1, 2}, {0, 0}), 3), (Counts{2, 1, 1}));
}

TEST(Pins, EveryStageHasAPeerWhereverPinsAre) {
  for (std::uint32_t trial = 0; trial < 2000; ++trial) {
    const auto draw = [&](std::uint64_t what, std::uint64_t below) {
      return random_bits(3, Stream::test, trial, what) % below;
    };
    const std::size_t stages = 1 + draw(0, 6);
    const std::size_t pinned = 1 + draw(1, 8);
    std::vector<double> costs;
    for (std::size_t s = 0; s < stages; ++s) {
      costs.push_back(static_cast<double>(draw(10 + s, 9)));
    }
    std::vector<std::int64_t> pins;
    for (std::size_t i = 0; i < pinned; ++i) {
      pins.push_back(static_cast<std::int64_t>(draw(100 + i, stages)));
    }
    const std::size_t empty = stages - std::set<std::int64_t>(pins.begin(), pins.end()).size();
    const auto workers = static_cast<std::int32_t>(pinned + empty + draw(2, 7));
    const View view = deal_peers(peers(0, workers), {}, costs, pins);
    for (std::size_t i = 0; i < pinned; ++i) {
      EXPECT_EQ(view.members().at(PeerId(static_cast<std::int32_t>(i))),
                only(static_cast<std::int32_t>(pins[i])));
    }
    for (const auto& [peer, served] : view.members()) ASSERT_EQ(served.size(), 1u) << trial;
    for (const std::size_t replicas : replica_counts(view, stages)) ASSERT_GE(replicas, 1u);
  }
}

TEST(View, APeerThatLeavesAStageIsChosenOnlyIfNobodyStays) {
  View view = deal_peers(peers(0, 3), {}, {1});
  view.set_leaving(PeerId(1), StageId(0), true);
  EXPECT_EQ(view.replicas(StageId(0)), peers(0, 3)) << "it serves as before";
  EXPECT_EQ(view.choices(StageId(0)), (std::vector{PeerId(0), PeerId(2)}));
  for (const PeerId peer : peers(0, 3)) view.set_leaving(peer, StageId(0), true);
  EXPECT_TRUE(view.staying(StageId(0)).empty());
  EXPECT_EQ(view.choices(StageId(0)), peers(0, 3));
  view.take_from(PeerId(1), StageId(0));
  EXPECT_EQ(view.replicas(StageId(0)), (std::vector{PeerId(0), PeerId(2)}));
  EXPECT_FALSE(view.leaving().contains(PeerId(1)));
}

// Counts are kept for a revision: two views of one leader must never show the same.
TEST(View, AViewThatBecomesAnotherHasARevisionOfItsOwn) {
  View view = deal_peers(peers(0, 2), {}, {1});
  const View other = deal_peers(peers(1, 3), {}, {1});
  ASSERT_EQ(view.revision(), other.revision());
  const std::int64_t before = view.revision();
  view.become(other);
  EXPECT_EQ(view, other);
  EXPECT_GT(view.revision(), before);
}

// A leader edits its view many times; what is indexed must be what the roles say.
TEST(View, WhatIsKnownByStageFollowsAllChanges) {
  RandomStream random(7, Stream::test, 0);
  View view = deal_peers(peers(0, 6), peers(6, 8), {1, 1, 1});
  for (int change = 0; change < 2000; ++change) {
    const PeerId peer(static_cast<std::int32_t>(random.below(9)));
    const StageId stage(static_cast<std::int32_t>(random.below(3)));
    const std::int64_t before = view.revision();
    switch (random.below(6)) {
      case 0:
        view.add(peer);
        break;
      case 1:
        view.remove(peer);
        break;
      case 2:
        view.serve(peer, stage);
        break;
      case 3:
        if (view.contains(peer) && !view.serves(peer, stage)) view.learn(peer, stage);
        break;
      case 4:
        if (view.serves(peer, stage)) view.set_leaving(peer, stage, change % 2 == 0);
        break;
      default:
        view.take_from(peer, stage);
    }
    const View rebuilt(view.number, view.members(), view.learners(), view.leaving());
    ASSERT_EQ(view, rebuilt);
    ASSERT_EQ(view.serving(), rebuilt.serving());
    ASSERT_EQ(view.idle(), rebuilt.idle());
    ASSERT_GE(view.revision(), before);
    for (const std::int32_t s : {0, 1, 2}) {
      ASSERT_EQ(view.replicas(StageId(s)), rebuilt.replicas(StageId(s)));
      ASSERT_EQ(view.staying(StageId(s)), rebuilt.staying(StageId(s)));
      ASSERT_EQ(view.learners_of(StageId(s)), rebuilt.learners_of(StageId(s)));
    }
  }
}

}  // namespace
}  // namespace swarmpi::view_test
