#include "simulation/event_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/random.hpp"

namespace swarmpi {
namespace {

TEST(EventQueue, GivesTheEarliestAndOfEqualsTheFirst) {
  EventQueue<std::string> queue;
  queue.push(2, "third");
  queue.push(1, "first");
  queue.push(2, "fourth");
  queue.push(1, "second");
  EXPECT_EQ(queue.next_s(), 1);
  for (const char* expected : {"first", "second", "third", "fourth"}) {
    EXPECT_EQ(queue.pop(), expected);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueue, WhatIsPostponedKeepsItsPlace) {
  EventQueue<std::string> queue;
  queue.push(1, "first");
  queue.push(2, "second");
  queue.push(4, "last");
  queue.postpone(3);
  queue.postpone(4);
  queue.postpone(4);
  for (const char* expected : {"first", "second", "last"}) EXPECT_EQ(queue.pop(), expected);
}

TEST(EventQueue, KeepsOrderWhileItGrowsAndShrinks) {
  RandomStream draws(1, Stream::simulation, 0);
  EventQueue<double> queue;
  double now_s = 0;
  for (int i = 0; i < 10'000; ++i) {
    if (queue.empty() || draws.chance(0.5)) {
      const double at_s = now_s + draws.fraction();
      queue.push(at_s, at_s);
      continue;
    }
    const double next_s = queue.next_s();
    ASSERT_GE(next_s, now_s);
    ASSERT_EQ(queue.pop(), next_s);
    now_s = next_s;
  }
}

}  // namespace
}  // namespace swarmpi
