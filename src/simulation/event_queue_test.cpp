#include "simulation/event_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/random.hpp"

namespace swarmpi {
namespace {

TEST(EventQueue, GivesTheEarliestAndOfEqualsTheFirst) {
  EventQueue<std::string> heap;
  heap.push(2, "third");
  heap.push(1, "first");
  heap.push(2, "fourth");
  heap.push(1, "second");
  EXPECT_EQ(heap.next_s(), 1);
  for (const char* expected : {"first", "second", "third", "fourth"}) {
    EXPECT_EQ(heap.pop(), expected);
  }
  EXPECT_TRUE(heap.empty());
}

TEST(EventQueue, WhatIsPostponedKeepsItsPlace) {
  EventQueue<std::string> heap;
  heap.push(1, "first");
  heap.push(2, "second");
  heap.push(4, "last");
  heap.postpone(3);
  heap.postpone(4);
  heap.postpone(4);
  for (const char* expected : {"first", "second", "last"}) EXPECT_EQ(heap.pop(), expected);
}

TEST(EventQueue, KeepsOrderWhileItGrowsAndShrinks) {
  RandomStream draws(1, Stream::simulation, 0);
  EventQueue<double> heap;
  double now_s = 0;
  for (int i = 0; i < 10'000; ++i) {
    if (heap.empty() || draws.chance(0.5)) {
      const double at_s = now_s + draws.fraction();
      heap.push(at_s, at_s);
      continue;
    }
    const double next_s = heap.next_s();
    ASSERT_GE(next_s, now_s);
    ASSERT_EQ(heap.pop(), next_s);
    now_s = next_s;
  }
}

}  // namespace
}  // namespace swarmpi
