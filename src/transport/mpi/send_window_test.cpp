#include "transport/mpi/send_window.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

constexpr std::size_t kFragment = 65'536;

/// Fills the window, and takes all of it in order at `bytes_per_s`; each fragment comes `latency_s`
/// later than that.
double send_all_that_may(SendWindow& window, double now_s, double bytes_per_s, double latency_s) {
  std::size_t fragments = 0;
  for (; window.admits(kFragment); ++fragments) window.sent(kFragment, now_s);
  for (std::size_t i = 1; i <= fragments; ++i) {
    const double carried_s = static_cast<double>(i * kFragment) / bytes_per_s;
    window.taken(kFragment, now_s + carried_s + latency_s);
  }
  return now_s + static_cast<double>(fragments * kFragment) / bytes_per_s + latency_s;
}

TEST(SendWindow, AFastLinkHasAMegabyteUnderWay) {
  SendWindow window;
  const double now_s = send_all_that_may(window, 0, 1e9, 1e-4);
  send_all_that_may(window, now_s, 1e9, 1e-4);
  EXPECT_EQ(window.most_bytes(), 1'000'000);
}

TEST(SendWindow, SoHasOneThatIsFarAway) {
  SendWindow window;
  const double now_s = send_all_that_may(window, 0, 1e8, 0.05);
  send_all_that_may(window, now_s, 1e8, 0.05);
  EXPECT_EQ(window.most_bytes(), 1'000'000);
}

TEST(SendWindow, OfALineThatIsSharedByManyNoneHoldsMore) {
  SendWindow window;
  double now_s = send_all_that_may(window, 0, 1e9, 1e-4);
  // Now a hundred others send to the same receiver.
  now_s = send_all_that_may(window, now_s, 2e5, 0.01);
  EXPECT_EQ(window.most_bytes(), 250'000);
  // They are through.
  send_all_that_may(window, now_s, 1e9, 1e-4);
  EXPECT_EQ(window.most_bytes(), 1'000'000);
}

TEST(SendWindow, BetweenTheseItHoldsWhatTheLineCarriesInHalfASecond) {
  SendWindow window;
  double now_s = 0;
  for (int i = 0; i < 20; ++i) now_s = send_all_that_may(window, now_s, 1e6, 0);
  EXPECT_NEAR(static_cast<double>(window.most_bytes()), 5e5, 1e3);
}

TEST(SendWindow, APauseSaysNothingOfTheLine) {
  SendWindow window;
  double now_s = send_all_that_may(window, 0, 1e9, 1e-4);
  window.sent(kFragment, now_s);  // too few for the receiver to tell
  now_s += 60;
  window.sent(kFragment, now_s);
  window.taken(2 * kFragment, now_s + 1e-3);
  EXPECT_EQ(window.most_bytes(), 1'000'000);
}

}  // namespace
}  // namespace swarmpi
