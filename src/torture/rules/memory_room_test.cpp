#include "torture/rules/memory_room.hpp"

#include <gtest/gtest.h>

#include "core/status.hpp"

namespace swarmpi::memory_room_test {
namespace {

constexpr PeerId kPeer(0), kOther(1);
constexpr StageId kFront(0), kBack(1);

struct Scene {
  Scene() {
    first.serve(kPeer, kFront);
    first.serve(kOther, kBack);
    for (const auto& [peer, bytes] : stated) first.set_budget(peer, bytes);
  }
  MemoryNeeds needs{1, {{4, 5}, {4, 5}}};
  Budgets stated{{kPeer, 9}, {kOther, 5}};
  View first;
};

TEST(MemoryRoom, NobodyIsGivenMoreThanFits) {
  Scene scene;
  const MemoryRoom room(scene.needs, scene.stated, scene.first);
  EXPECT_EQ(room.published(scene.first), "");
  View view = scene.first;
  view.serve(kPeer, kBack);
  EXPECT_EQ(room.published(view), "");
  view.serve(kOther, kFront);
  EXPECT_NE(room.published(view).find("nobody is given more"), std::string::npos);
  view = scene.first;
  view.learn(kPeer, kBack);
  EXPECT_NE(room.published(view), "");
}

TEST(MemoryRoom, AViewHasWhatPeersHaveStated) {
  Scene scene;
  const MemoryRoom room(scene.needs, scene.stated, scene.first);
  View view = scene.first;
  view.set_budget(kPeer, 8);
  EXPECT_EQ(room.published(view), "") << "it had less room after all";
  view.set_budget(kPeer, 10);
  EXPECT_NE(room.published(view).find("budgets that peers have stated"), std::string::npos);
  View without;
  without.serve(kPeer, kFront);
  EXPECT_NE(room.published(without), "");
}

TEST(MemoryRoom, WhatIsLeftIsFreedFirst) {
  Scene scene;
  MemoryRoom room(scene.needs, scene.stated, scene.first);
  EXPECT_NE(room.allocates(kOther, kFront, true), "");
  room.refused(kOther, kFront);
  room.freed(kOther, kBack);
  EXPECT_NE(room.allocates(kOther, kFront, true), "") << "5 and the peer itself";
  EXPECT_EQ(room.allocates(kOther, kFront, false), "");
  EXPECT_EQ(room.allocates(kPeer, kBack, false), "");
}

TEST(MemoryRoom, ARunEndsForItsMemoryOnlyWhereNoDealFits) {
  Scene scene;
  const MemoryRoom room(scene.needs, scene.stated, scene.first);
  const Status short_of = Status::stopped("too little memory: ...");
  EXPECT_NE(room.ends(short_of, scene.first, {kPeer, kOther}), "");
  EXPECT_NE(room.ends(short_of, scene.first, {kPeer}), "") << "both stages fit";
  EXPECT_EQ(room.ends(short_of, scene.first, {kOther}), "");
  EXPECT_EQ(room.ends(Status::stopped("somebody asked"), scene.first, {kPeer}), "");
}

}  // namespace
}  // namespace swarmpi::memory_room_test
