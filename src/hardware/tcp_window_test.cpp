#include "hardware/tcp_window.hpp"

#include <gtest/gtest.h>

namespace swarmpi::tcp_window_test {
namespace {

constexpr Nanoseconds kMs = 1'000'000;
constexpr std::int64_t kFirstWindow = 14'480;
constexpr TcpWindow::Path kFar{50 * kMs, 160};  // 50 Mbit/s: 312,500 bytes in a round trip

TEST(TcpWindow, WhatFitsIntoTheFirstWindowLeavesAtTheRateOfThePath) {
  TcpWindow window;
  EXPECT_EQ(window.pass(10'000, kFar, kMs), kMs + 1'600'000);
  EXPECT_EQ(window.pass(4'480, kFar, kMs), kMs + kFirstWindow * 160) << "behind the first";
}

TEST(TcpWindow, AWindowDoublesInEachRoundTripUntilItIsAsWideAsThePath) {
  TcpWindow window;
  EXPECT_EQ(window.pass(3 * kFirstWindow, kFar, 0), 50 * kMs + 2 * kFirstWindow * 160);
  TcpWindow other;
  // Five round trips carry 31 first windows; the next window would not be acknowledged too late.
  const std::int64_t rest = 1'000'000 - 31 * kFirstWindow;
  EXPECT_EQ(other.pass(1'000'000, kFar, 0), 250 * kMs + rest * 160);
}

// What has left is acknowledged a round trip later, though the line is idle meanwhile.
TEST(TcpWindow, WhatComesBeforeAcknowledgementsFillsTheSameWindow) {
  TcpWindow window;
  const Nanoseconds late = 100'000 * kMs;
  window.pass(kFirstWindow, kFar, late);
  EXPECT_EQ(window.pass(kFirstWindow, kFar, late + 10 * kMs), late + 50 * kMs + kFirstWindow * 160);
  EXPECT_EQ(window.pass(kFirstWindow, kFar, late + 101 * kMs),
            late + 101 * kMs + kFirstWindow * 160)
      << "two windows have come back";
}

TEST(TcpWindow, AWideWindowStaysWideWhileItIsUsed) {
  TcpWindow window;
  Nanoseconds free_at = window.pass(1'000'000, kFar, 0);
  for (int i = 0; i < 3; ++i) {
    const Nanoseconds now = free_at + 100 * kMs;
    free_at = window.pass(1'000'000, kFar, now);
    EXPECT_EQ(free_at, now + 160 * kMs);
  }
}

TEST(TcpWindow, ItIsHalvedForEachTimeoutInWhichNothingWasSent) {
  TcpWindow window;
  const Nanoseconds free_at = window.pass(1'000'000, kFar, 0);
  const Nanoseconds later = free_at + 10'000 * kMs;
  EXPECT_EQ(window.pass(3 * kFirstWindow, kFar, later), later + 50 * kMs + 2 * kFirstWindow * 160)
      << "as at the beginning";
}

TEST(TcpWindow, WhatFillsNothingKeepsItOpen) {
  TcpWindow small, beside;
  Nanoseconds now = small.pass(1'000'000, kFar, 0);
  ASSERT_EQ(beside.pass(1'000'000, kFar, 0), now);
  for (int i = 0; i < 50; ++i) {
    now += 200 * kMs;
    small.pass(10, kFar, now);
    beside.pass_beside({now, now}, kFar);
  }
  now += 200 * kMs;
  EXPECT_EQ(small.pass(1'000'000, kFar, now), now + 160 * kMs);
  EXPECT_EQ(beside.pass(1'000'000, kFar, now), now + 160 * kMs);
}

// Acknowledgements leave for as long as what they are for comes.
TEST(TcpWindow, ItRestsFromWhenTheLastAcknowledgementHasLeft) {
  TcpWindow window;
  const Nanoseconds free_at = window.pass(1'000'000, kFar, 0);
  const Nanoseconds last = free_at + 5'000 * kMs, soon = last + 200 * kMs;
  window.pass_beside({free_at + 100 * kMs, last}, kFar);
  EXPECT_EQ(window.pass(1'000'000, kFar, soon), soon + 160 * kMs);
}

// Five first windows are two that were full, and a remainder of less than half of the third.
TEST(TcpWindow, AWindowWasFullThoughLittleIsLeftAfterIt) {
  TcpWindow window;
  const Nanoseconds late = 100'000 * kMs;
  const Nanoseconds free_at = window.pass(4 * kFirstWindow, kFar, late);
  const Nanoseconds soon = free_at + 100 * kMs;
  EXPECT_EQ(window.pass(4 * kFirstWindow, kFar, soon), soon + 4 * kFirstWindow * 160);
}

TEST(TcpWindow, AFewTimeoutsLeaveSomeOfIt) {
  TcpWindow window;
  const Nanoseconds free_at = window.pass(200'000, kFar, 0);
  const Nanoseconds soon = free_at + 260 * kMs, late = free_at + 260 * 250 * kMs;
  TcpWindow rested = window;
  EXPECT_EQ(window.pass(100'000, kFar, soon), soon + 16 * kMs);
  EXPECT_GT(rested.pass(100'000, kFar, late), late + 100 * kMs);
}

TEST(TcpWindow, WhatMayBeUnderWayBoundsTheRateOfALongPath) {
  TcpWindow window(1e6);
  const TcpWindow::Path fast{50 * kMs, 0};
  const Nanoseconds opened = window.pass(100'000'000, fast, 0);
  EXPECT_EQ(window.pass(10'000'000, fast, opened - 1) - opened, 500 * kMs);
}

TEST(TcpWindow, APathWithoutLatencyNeedsNone) {
  TcpWindow window;
  EXPECT_EQ(window.pass(1'000'000, {0, 160}, 0), 160 * kMs);
  EXPECT_EQ(window.pass(1'000'000, {0, 0}, 1000 * kMs), 1000 * kMs);
}

}  // namespace
}  // namespace swarmpi::tcp_window_test
