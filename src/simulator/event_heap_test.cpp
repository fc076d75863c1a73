#include "simulator/event_heap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "simulator/draw_sequence.hpp"

namespace swarmpi {
namespace {

TEST(EventHeap, GivesTheEarliestAndOfEqualsTheFirst) {
  EventHeap<std::string> heap;
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

TEST(EventHeap, WhatIsPostponedKeepsItsPlace) {
  EventHeap<std::string> heap;
  heap.push(1, "first");
  heap.push(2, "second");
  heap.push(4, "last");
  heap.postpone(3);
  heap.postpone(4);
  heap.postpone(4);
  for (const char* expected : {"first", "second", "last"}) EXPECT_EQ(heap.pop(), expected);
}

TEST(EventHeap, KeepsOrderWhileItGrowsAndShrinks) {
  DrawSequence draws(1, 0);
  EventHeap<double> heap;
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
