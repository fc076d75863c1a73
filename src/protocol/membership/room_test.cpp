#include "protocol/membership/room.hpp"

#include <gtest/gtest.h>

namespace swarmpi::room_test {
namespace {

constexpr PeerId kPeer(0), kOther(1);
constexpr StageId kFront(0), kMiddle(1), kBack(2);

// Serving takes 5, 4 and 3, learning one more; each peer 1 besides.
MemoryNeeds needs() { return {1, {{5, 6}, {4, 5}, {3, 4}}}; }

View view_with(std::int64_t budget_bytes) {
  View view;
  view.serve(kPeer, kFront);
  view.serve(kOther, kMiddle);
  view.set_budget(kPeer, budget_bytes);
  return view;
}

TEST(Room, CountsWhatIsServedAndLearnedAndThePeerItself) {
  const std::set<StageId> none;
  EXPECT_EQ(least_bytes(needs(), none, none), 0) << "a spare";
  EXPECT_EQ(least_bytes(needs(), {kFront, kBack}, {kMiddle}), 1 + 5 + 3 + 5);
  View view = view_with(0);
  view.learn(kPeer, kBack);
  EXPECT_EQ(least_bytes(needs(), view, kPeer), 1 + 5 + 4);
  EXPECT_EQ(least_bytes({}, view, kPeer), 0) << "nothing is known";
}

TEST(Room, WhereEachReplicaOwnsARangeTheyDivideWhatIsOwned) {
  MemoryNeeds owned{1, {{5, 6, 10}}};
  EXPECT_EQ(least_bytes(owned, {kFront}, {}), 1 + 5 + 10);
  View view;
  for (const std::int32_t peer : {0, 1, 2}) view.serve(PeerId(peer), kFront);
  EXPECT_EQ(least_bytes(owned, view, kPeer), 1 + 5 + 4) << "a third, rounded up";
  view.set_budget(kPeer, 10);
  EXPECT_TRUE(fits(owned, view));
  view.remove(PeerId(2));
  EXPECT_FALSE(fits(owned, view)) << "two have more to hold";
  owned.raise_to({1, {{4, 7, 12}}});
  EXPECT_EQ(owned.of(kFront).owned_bytes, 12);
}

TEST(Room, FitsToTheByte) {
  EXPECT_TRUE(fits(needs(), view_with(6)));
  EXPECT_FALSE(fits(needs(), view_with(5)));
  EXPECT_TRUE(fits({}, view_with(5))) << "nothing is known";
  View view = view_with(6);
  view.serve(kOther, kBack);
  EXPECT_TRUE(fits(needs(), view)) << "who has stated nothing has no bound";
}

TEST(Room, AStageIsLearnedBesideWhatIsServed) {
  EXPECT_EQ(room_to_learn(needs(), view_with(10), kPeer, kBack), Room::beside);
  EXPECT_EQ(room_to_learn(needs(), view_with(9), kPeer, kBack), Room::none);
  EXPECT_EQ(room_to_learn({}, view_with(9), kPeer, kBack), Room::beside);
  EXPECT_TRUE(could_learn_alone(needs(), view_with(6), kPeer, kMiddle));
  EXPECT_FALSE(could_learn_alone(needs(), view_with(5), kPeer, kMiddle));
}

TEST(Room, WhatIsLearnedCanGiveWay) {
  View view = view_with(11);
  view.learn(kPeer, kBack);
  EXPECT_EQ(room_to_learn(needs(), view, kPeer, kMiddle), Room::if_others_give_way);
  view.set_budget(kPeer, 10);
  EXPECT_EQ(room_to_learn(needs(), view, kPeer, kMiddle), Room::none);
  view.set_budget(kPeer, 15);
  EXPECT_EQ(room_to_learn(needs(), view, kPeer, kMiddle), Room::beside);
}

TEST(Room, AMovePromisesTheRoomForItsNewStage) {
  View view = view_with(10);
  view.begin_move_by_leaving({kPeer, kFront, kMiddle});
  EXPECT_EQ(room_to_learn(needs(), view, kPeer, kBack), Room::none) << "5 + 4 + 5";
  view.set_budget(kPeer, 15);
  EXPECT_EQ(room_to_learn(needs(), view, kPeer, kBack), Room::beside);
  view.take_from(kPeer, kFront);
  EXPECT_EQ(least_bytes(needs(), view, kPeer), 6) << "it will learn the new stage";
}

TEST(Room, CachesGiveWay) {
  View view = view_with(16);
  EXPECT_EQ(kept_bytes(needs(), view, kPeer, 100), 5) << "half of what is left";
  EXPECT_EQ(kept_bytes(needs(), view, kPeer, 3), 3) << "no more than the deck says";
  EXPECT_EQ(kept_bytes(needs(), view, kOther, 100), 100) << "no bound";
  view.learn(kPeer, kMiddle);
  EXPECT_EQ(kept_bytes(needs(), view, kPeer, 100), 2);
  view.set_budget(kPeer, 3);
  EXPECT_EQ(kept_bytes(needs(), view, kPeer, 100), 0);
}

TEST(Room, AllPlanByTheLargestNeeds) {
  MemoryNeeds mine = needs();
  mine.raise_to({7, {{4, 9}, {6, 5}, {3, 4}}});
  EXPECT_EQ(mine.peer_bytes, 7);
  EXPECT_EQ(mine.of(kFront).serving_bytes, 5);
  EXPECT_EQ(mine.of(kFront).learning_bytes, 9);
  EXPECT_EQ(mine.of(kMiddle).serving_bytes, 6);
}

}  // namespace
}  // namespace swarmpi::room_test
