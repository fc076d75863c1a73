#include "simulation/event_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/random.hpp"

namespace swarmpi::event_queue_test {
namespace {

constexpr PeerId kPeer{7};

TEST(EventQueue, GivesTheEarliestAndOfEqualsTheFirst) {
  EventQueue<std::string> queue;
  queue.push(2, kPeer, "third");
  queue.push(1, kPeer, "first");
  queue.push(2, kPeer, "fourth");
  queue.push(1, kPeer, "second");
  EXPECT_EQ(queue.next_time(), 1);
  for (const char* expected : {"first", "second", "third", "fourth"}) {
    EXPECT_EQ(queue.pop(), expected);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueue, AtOneTimeTheLowerPeerComesFirst) {
  EventQueue<std::string> queue;
  queue.push(1, PeerId(2), "second peer, first item");
  queue.push(1, PeerId(2), "second peer, second item");
  queue.push(1, PeerId(1), "first peer");
  EXPECT_EQ(queue.next_peer(), PeerId(1));
  for (const char* expected :
       {"first peer", "second peer, first item", "second peer, second item"}) {
    EXPECT_EQ(queue.pop(), expected);
  }
}

TEST(EventQueue, WhatIsPostponedKeepsItsPlace) {
  EventQueue<std::string> queue;
  queue.push(1, kPeer, "first");
  queue.push(2, kPeer, "second");
  queue.push(4, kPeer, "last");
  queue.postpone(3);
  queue.postpone(4);
  queue.postpone(4);
  for (const char* expected : {"first", "second", "last"}) EXPECT_EQ(queue.pop(), expected);
}

TEST(EventQueue, KeepsOrderWhileItGrowsAndShrinks) {
  RandomStream draws(1, Stream::simulation, 0);
  EventQueue<Nanoseconds> queue;
  Nanoseconds now = 0;
  for (int i = 0; i < 10'000; ++i) {
    if (queue.empty() || draws.chance(0.5)) {
      const Nanoseconds at = now + to_ns(draws.fraction());
      queue.push(at, PeerId(i % 5), at);
      continue;
    }
    const Nanoseconds next = queue.next_time();
    ASSERT_GE(next, now);
    ASSERT_EQ(queue.pop(), next);
    now = next;
  }
}

}  // namespace
}  // namespace swarmpi::event_queue_test
