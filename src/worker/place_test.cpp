#include "worker/place.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

struct Scene {
  Inbox inbox;
  Place place{PeerId(2), {{1, "kill", 2}, {2, "join", 6}, {3, "stop", 6}}, inbox};
};

TEST(Place, WhatHappensToAPeerHappensWhereItLives) {
  Scene scene;
  scene.place.strike({0, "stop", 6});
  EXPECT_FALSE(scene.place.fate().stopped);
  scene.place.strike({0, "stop", 2});
  EXPECT_TRUE(scene.place.fate().stopped);
  scene.place.strike({0, "continue", 2});
  EXPECT_FALSE(scene.place.fate().stopped);
  scene.place.strike({0, "cut", 2});
  EXPECT_TRUE(scene.place.fate().cut);
  scene.place.strike({0, "heal", 2});
  EXPECT_FALSE(scene.place.fate().cut);
  scene.place.strike({0, "kill", 2});
  EXPECT_TRUE(scene.place.fate().dead);
}

TEST(Place, ANoticeIsHeardLikeASignal) {
  Scene scene;
  scene.place.strike({0, "notice", 2});
  const std::optional<Event> event = scene.inbox.take();
  ASSERT_TRUE(event);
  EXPECT_TRUE(std::holds_alternative<StopRequested>(*event));
}

TEST(Place, TheNextComesAtItsTimeAndNothingOfTheOneBeforeIsLeft) {
  Scene scene;
  EXPECT_TRUE(scene.place.awaits_more());
  EXPECT_FALSE(scene.place.settle_next());
  scene.place.strike({0, "cut", 2});
  scene.place.strike({0, "kill", 2});
  scene.inbox.post(StopRequested{"of the one before"});
  scene.place.strike({0, "join", 6});
  scene.place.vacate();
  EXPECT_FALSE(scene.inbox.take());
  EXPECT_EQ(scene.place.settle_next(), PeerId(6));
  EXPECT_FALSE(scene.place.fate().dead);
  EXPECT_FALSE(scene.place.fate().cut);
  EXPECT_FALSE(scene.place.awaits_more());
  scene.place.strike({0, "kill", 2});
  EXPECT_FALSE(scene.place.fate().dead);
}

}  // namespace
}  // namespace swarmpi
