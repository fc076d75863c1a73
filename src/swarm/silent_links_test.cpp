#include "swarm/silent_links.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

TEST(SilentLinks, OfTwoPeersTheHigherIdGoes) {
  SilentLinks links;
  EXPECT_FALSE(links.worst(0, 1));
  links.reported(PeerId(5), PeerId(2), 0);
  links.reported(PeerId(2), PeerId(5), 0.1);
  EXPECT_EQ(links.worst(0.2, 1), PeerId(5));
}

TEST(SilentLinks, ThePeerThatManyCannotReachGoes) {
  SilentLinks links;
  for (const std::int32_t other : {4, 6, 7}) links.reported(PeerId(other), PeerId(3), 0);
  EXPECT_EQ(links.worst(0, 1), PeerId(3));
  links.forget(PeerId(3));
  EXPECT_FALSE(links.worst(0, 1));
}

TEST(SilentLinks, WhatIsNotReportedAnyMoreIsOver) {
  SilentLinks links;
  links.reported(PeerId(1), PeerId(2), 0);
  EXPECT_TRUE(links.worst(0.9, 1));
  EXPECT_FALSE(links.worst(1.1, 1));
}

}  // namespace
}  // namespace swarmpi
