#include "protocol/method/room_layout.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "core/random.hpp"
#include "protocol/method/layout.hpp"

namespace swarmpi::room_layout_test {
namespace {

using Peers = std::vector<PeerId>;

Peers peers(std::int32_t first, std::int32_t end) {
  Peers ids;
  for (; first < end; ++first) ids.emplace_back(first);
  return ids;
}

RunPlan plan_of(const std::vector<std::int64_t>& serving_bytes, Method method = Method::swarm) {
  RunPlan plan;
  plan.swarm.method = method;
  for (const std::int64_t bytes : serving_bytes) {
    plan.needs.stages.push_back({bytes, bytes + 1});
    plan.stage_costs.push_back(1);
  }
  plan.stage_tensors.resize(serving_bytes.size());
  return plan;
}

Budgets budgets_of(const std::vector<std::int64_t>& bytes) {
  Budgets budgets;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    budgets[PeerId(static_cast<std::int32_t>(i))] = bytes[i];
  }
  return budgets;
}

std::set<std::int32_t> stages_of(const View& view, std::int32_t peer) {
  std::set<std::int32_t> stages;
  for (const StageId stage : view.members().at(PeerId(peer))) stages.insert(stage.value);
  return stages;
}

using Stages = std::set<std::int32_t>;

TEST(RoomLayout, ADealIsFoundWhereTheFirstThatComesToMindDoesNotFit) {
  const auto view = lay_out_in_room(plan_of({5, 4, 3}), {peers(0, 2), {}}, budgets_of({7, 5}));
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(stages_of(*view, 0), (Stages{1, 2}));
  EXPECT_EQ(stages_of(*view, 1), Stages{0});
  EXPECT_EQ(view->budgets(), budgets_of({7, 5}));
  EXPECT_FALSE(lay_out_in_room(plan_of({5, 4, 3}), {peers(0, 2), {}}, budgets_of({7, 4})));
}

// With fewer replicas each owns more: what is left may hold the stage only together with a spare.
TEST(RoomLayout, OwnersOfRangesAreAsManyAsHaveRoom) {
  RunPlan plan = plan_of({5}, Method::zero_offload);
  plan.needs.stages[0].owned_bytes = 9;
  const auto serving = [&](const std::vector<std::int64_t>& budgets, std::int32_t spares) {
    const auto count = static_cast<std::int32_t>(budgets.size());
    const auto view = lay_out_in_room(
        plan, {peers(0, count - spares), peers(count - spares, count)}, budgets_of(budgets));
    return view ? view->replicas(StageId(0)) : Peers();
  };
  EXPECT_EQ(serving({8, 8, 8}, 0), peers(0, 3));
  EXPECT_EQ(serving({8, 8, 8}, 1), peers(0, 3)) << "two would need 10 each";
  EXPECT_EQ(serving({10, 10, 7}, 0), peers(0, 2)) << "the third has too little in any case";
  EXPECT_EQ(serving({14, 5}, 0), peers(0, 1));
  EXPECT_EQ(serving({9, 9}, 0), Peers());
}

TEST(RoomLayout, WhatFitsIsDealtAsByCosts) {
  const RunPlan plan = plan_of({5, 4, 3});
  const View by_costs = lay_out(Method::swarm, peers(0, 5), peers(5, 6), plan.stage_costs);
  for (const Budgets& budgets : {Budgets{}, budgets_of({5, 5, 5, 5, 5, 0})}) {
    const auto view = lay_out_in_room(plan, {peers(0, 5), peers(5, 6)}, budgets);
    EXPECT_EQ(view->members(), by_costs.members());
  }
}

TEST(RoomLayout, EachPeerNeedsSomethingItself) {
  RunPlan plan = plan_of({5, 4, 3});
  plan.needs.peer_bytes = 1;
  EXPECT_FALSE(lay_out_in_room(plan, {peers(0, 2), {}}, budgets_of({7, 5})));
  EXPECT_TRUE(lay_out_in_room(plan, {peers(0, 2), {}}, budgets_of({8, 6})));
}

TEST(RoomLayout, WorkersThatAreLeftServeWhatTheyHaveRoomFor) {
  const auto view =
      lay_out_in_room(plan_of({5, 2}), {peers(0, 5), {}}, budgets_of({2, 2, 2, 1, 5}));
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->replicas(StageId(0)), Peers{PeerId(4)});
  EXPECT_EQ(view->replicas(StageId(1)), peers(0, 3));
  EXPECT_TRUE(view->idle().contains(PeerId(3)));
}

TEST(RoomLayout, SparesServeWhereWorkersHaveNoRoomAndThoseThatDepartLast) {
  const RunPlan plan = plan_of({5, 4});
  const Budgets budgets = budgets_of({5, 3, 4, 9});
  const auto by_spare = lay_out_in_room(plan, {peers(0, 2), peers(2, 3), peers(3, 4)}, budgets);
  ASSERT_TRUE(by_spare.has_value());
  EXPECT_EQ(stages_of(*by_spare, 2), Stages{1});
  EXPECT_TRUE(stages_of(*by_spare, 3).empty());
  const auto by_last = lay_out_in_room(plan, {peers(1, 3), {}, peers(3, 4)}, budgets);
  ASSERT_TRUE(by_last.has_value());
  EXPECT_TRUE(stages_of(*by_last, 3).contains(0));
  EXPECT_TRUE(lay_out_in_room(plan, {{}, {}, peers(3, 4)}, budgets));
}

TEST(RoomLayout, ThePinnedServeWhatTheyArePinnedTo) {
  const RunPlan plan = plan_of({5, 4, 3});
  const Hands hands{peers(0, 4), {}, {}, {2}};
  const auto view = lay_out_in_room(plan, hands, budgets_of({9, 3, 4, 5}));
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(stages_of(*view, 0), Stages{2});
  EXPECT_EQ(stages_of(*view, 3), Stages{0});
  EXPECT_FALSE(lay_out_in_room(plan, hands, budgets_of({2, 9, 9, 9})));
}

TEST(RoomLayout, PipelinesAreAsManyAsFit) {
  const RunPlan plan = plan_of({5, 2}, Method::gpipe);
  const auto two = lay_out_in_room(plan, {peers(0, 5), {}}, budgets_of({2, 5, 1, 2, 5}));
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ(two->replicas(StageId(0)), (Peers{PeerId(1), PeerId(4)}));
  EXPECT_EQ(two->replicas(StageId(1)), (Peers{PeerId(0), PeerId(3)}));
  const auto one = lay_out_in_room(plan, {peers(0, 4), {}}, budgets_of({2, 2, 2, 5}));
  EXPECT_EQ(one->replicas(StageId(0)), Peers{PeerId(3)});
  EXPECT_EQ(one->replicas(StageId(1)).size(), 1u);
  const auto by_one_peer = lay_out_in_room(plan, {peers(0, 2), {}}, budgets_of({1, 7}));
  EXPECT_EQ(stages_of(*by_one_peer, 1), (Stages{0, 1}));
}

// All ways to give each stage to one peer.
bool some_deal_fits(const MemoryNeeds& needs, const Peers& all, const Budgets& budgets) {
  const std::size_t stages = needs.stages.size();
  const auto deals =
      static_cast<std::size_t>(std::pow(static_cast<double>(all.size()), stages) + 0.5);
  for (std::size_t deal = 0; deal < deals; ++deal) {
    View view;
    std::size_t left = deal;
    for (std::size_t s = 0; s < stages; ++s, left /= all.size()) {
      view.serve(all[left % all.size()], StageId(static_cast<std::int32_t>(s)));
    }
    for (const auto& [peer, bytes] : budgets) view.set_budget(peer, bytes);
    if (fits(needs, view)) return true;
  }
  return false;
}

TEST(RoomLayout, NoDealIsOverlooked) {
  RandomStream draws(1, Stream::simulation, 0);
  int none = 0, searched = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::int64_t> serving;
    for (auto stages = draws.between(1, 4); stages > 0; --stages) {
      serving.push_back(draws.between(1, 8));
    }
    RunPlan plan = plan_of(serving);
    plan.needs.peer_bytes = draws.between(0, 2);
    const auto count = static_cast<std::int32_t>(draws.between(1, 6));
    std::vector<std::int64_t> bytes;
    for (std::int32_t p = 0; p < count; ++p) bytes.push_back(draws.between(0, 12));
    const auto workers = static_cast<std::int32_t>(draws.between(1, count));
    const Budgets budgets = budgets_of(bytes);
    const Hands hands{peers(0, workers), peers(workers, count)};
    const auto view = lay_out_in_room(plan, hands, budgets);
    ASSERT_EQ(view.has_value(), some_deal_fits(plan.needs, peers(0, count), budgets)) << i;
    none += view ? 0 : 1;
    if (!view) continue;
    EXPECT_TRUE(fits(plan.needs, *view)) << i;
    EXPECT_EQ(view->members().size(), static_cast<std::size_t>(count));
    for (std::int32_t s = 0; s < plan.stages(); ++s) {
      EXPECT_FALSE(view->replicas(StageId(s)).empty()) << i;
    }
    searched += fits(plan.needs, *view) ? 1 : 0;
  }
  EXPECT_GT(none, 200);
  EXPECT_GT(searched, 200);
}

TEST(RoomLayout, TheSearchEndsSoonInALargeSwarm) {
  RandomStream draws(2, Stream::simulation, 0);
  std::vector<std::int64_t> serving, bytes;
  for (int s = 0; s < 100; ++s) serving.push_back(draws.between(50, 100));
  for (int p = 0; p < 1000; ++p) bytes.push_back(draws.between(49, 101));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(lay_out_in_room(plan_of(serving), {peers(0, 1000), {}}, budgets_of(bytes)));
  const std::vector<std::int64_t> too_little(20000, 1);
  EXPECT_FALSE(lay_out_in_room(plan_of({5, 2}, Method::gpipe), {peers(0, 20000), {}},
                               budgets_of(too_little)));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 5);
}

TEST(RoomLayout, AShortageSaysWhatIsThereAndWhatWouldBeEnough) {
  const RunPlan plan = plan_of({5 << 20, 4 << 20, 3 << 20});
  const std::string text = shortage(plan, {peers(0, 2), {}}, budgets_of({7 << 20, 4 << 20}));
  EXPECT_EQ(text,
            "stage 0 needs 5.00 MiB, stage 1 needs 4.00 MiB, stage 2 needs 3.00 MiB, each peer 0 B "
            "besides; peer 0 may take 7.00 MiB, peer 1 may take 4.00 MiB; one more peer that may "
            "take 3.00 MiB would be enough");
}

TEST(RoomLayout, WhatWouldBeEnoughCountsThatSomeArePinned) {
  const RunPlan plan = plan_of({5 << 20, 4 << 20});
  const Budgets budgets = budgets_of({9 << 20, 3 << 20});
  EXPECT_NE(shortage(plan, {peers(0, 2), {}, {}, {0}}, budgets).find("may take 4.00 MiB would be"),
            std::string::npos)
      << "though peer 0 alone could hold both";
  EXPECT_NE(shortage(plan, {peers(0, 2), {}, {}, {0, 1}}, budgets)
                .find("swarm.pins gives peer 1 stage 1, for which it has no room"),
            std::string::npos)
      << "no other peer helps";
}

}  // namespace
}  // namespace swarmpi::room_layout_test
