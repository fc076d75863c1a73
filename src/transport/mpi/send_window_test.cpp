#include "transport/mpi/send_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "protocol/messages/lanes.hpp"

namespace swarmpi::send_window_test {
namespace {

constexpr std::size_t kLarge = 65'536;
constexpr auto kLeastBytes = static_cast<std::size_t>(kAhead.least_bytes);

/// A sender that has no end of data for one receiver, over a line that carries so much.
class Sender {
 public:
  explicit Sender(double bytes_per_s, double latency_s = 1e-4)
      : bytes_per_s_(bytes_per_s), latency_s_(latency_s) {}

  void set_rate(double bytes_per_s) { bytes_per_s_ = bytes_per_s; }
  void set_latency(double latency_s) { latency_s_ = latency_s; }

  /// A message of several fragments, the next as soon as the window admits it. The receiver
  /// acknowledges two at a time. False if it comes to stand.
  bool send_message(int fragments) {
    const std::size_t fragment_bytes = window.fragment_bytes(now_s);
    for (int i = 0; i < fragments; ++i) {
      while (!window.admits(fragment_bytes)) {
        if (under_way_.size() < kFragmentsAcknowledged) return false;
        acknowledge();
      }
      if (i == 0) window.cut_into(fragment_bytes);
      window.sent(fragment_bytes, now_s);
      line_free_s_ = std::max(line_free_s_, now_s);
      line_free_s_ += static_cast<double>(fragment_bytes) / bytes_per_s_;
      under_way_.push_back({fragment_bytes, line_free_s_ + latency_s_});
    }
    while (under_way_.size() >= kFragmentsAcknowledged) acknowledge();
    return true;
  }

  SendWindow window{kLarge};
  double now_s = 0;

 private:
  struct UnderWay {
    std::size_t bytes = 0;
    double comes_s = 0;
  };

  void acknowledge() {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < kFragmentsAcknowledged; ++i) {
      bytes += under_way_.front().bytes;
      now_s = std::max(now_s, under_way_.front().comes_s);
      under_way_.erase(under_way_.begin());
    }
    window.taken(bytes, now_s);
  }

  double bytes_per_s_;
  double latency_s_;
  double line_free_s_ = 0;
  std::vector<UnderWay> under_way_;
};

TEST(SendWindow, BeginsSmall) {
  SendWindow window(kLarge);
  EXPECT_EQ(window.most_bytes(), kLeastBytes);
  EXPECT_EQ(window.fragment_bytes(0), SendWindow::kSmallestFragmentBytes);
}

TEST(SendWindow, AFastLinkHasAMegabyteUnderWay) {
  Sender sender(1e9);
  EXPECT_TRUE(sender.send_message(100));
  EXPECT_TRUE(sender.send_message(100));
  EXPECT_EQ(sender.window.most_bytes(), 1'000'000);
  EXPECT_EQ(sender.window.fragment_bytes(sender.now_s), kLarge);
}

TEST(SendWindow, SoHasOneThatIsFarAwayAfterSomeRoundTrips) {
  Sender sender(1e8, 0.6);
  EXPECT_TRUE(sender.send_message(1000));
  EXPECT_EQ(sender.window.most_bytes(), 1'000'000);
  EXPECT_LT(sender.now_s, 0.6 * 15);
}

TEST(SendWindow, OfALineThatIsSharedByHundredsNoneHoldsMore) {
  Sender sender(1e9);
  EXPECT_TRUE(sender.send_message(100));
  EXPECT_TRUE(sender.send_message(100));
  sender.set_rate(6e4);
  // What is cut into large fragments goes on with them.
  EXPECT_TRUE(sender.send_message(20));
  EXPECT_EQ(sender.window.most_bytes(), kLeastBytes);
  EXPECT_TRUE(sender.send_message(20));
  EXPECT_EQ(sender.window.fragment_bytes(sender.now_s), SendWindow::kSmallestFragmentBytes);
  // The others are through.
  sender.set_rate(1e9);
  EXPECT_TRUE(sender.send_message(100));
  EXPECT_TRUE(sender.send_message(100));
  EXPECT_EQ(sender.window.most_bytes(), 1'000'000);
}

TEST(SendWindow, BetweenTheseUpToHalfASecondOfItWaitsForTheLine) {
  for (const double latency_s : {0.02, 0.2, 0.6, 1.5}) {
    constexpr double kBytesPerS = 5e5;
    Sender sender(kBytesPerS, latency_s);
    EXPECT_TRUE(sender.send_message(500));
    for (int i = 0; i < 40; ++i) {
      EXPECT_TRUE(sender.send_message(20));
      const double holds_s = static_cast<double>(sender.window.most_bytes()) / kBytesPerS;
      EXPECT_GT(holds_s, latency_s) << "the line stands still";
      EXPECT_LT(holds_s, latency_s + kAhead.most_s + 0.1) << latency_s;
    }
  }
}

// Many may begin at a time, and none of them knows of the others. Of some messages a part stays
// unacknowledged, for nothing follows it.
TEST(SendWindow, AfterAPauseItIsAsAtTheBeginning) {
  for (const int fragments : {100, 101}) {
    Sender sender(1e9);
    EXPECT_TRUE(sender.send_message(100));
    EXPECT_TRUE(sender.send_message(fragments));
    sender.now_s += 0.5;
    EXPECT_EQ(sender.window.fragment_bytes(sender.now_s), kLarge) << "no pause";
    sender.now_s += 1.5;
    EXPECT_EQ(sender.window.fragment_bytes(sender.now_s), SendWindow::kSmallestFragmentBytes);
    EXPECT_EQ(sender.window.most_bytes(), kLeastBytes);
    EXPECT_TRUE(sender.send_message(2));
    EXPECT_LE(sender.window.most_bytes(), 2 * kLeastBytes);
    EXPECT_TRUE(sender.send_message(100));
    EXPECT_GT(sender.window.most_bytes(), 4 * kLeastBytes);
  }
}

// As the boundaries of a pipeline: in fragments of a quarter of the window they leave without an
// answer as much as they have.
TEST(SendWindow, RegularMessagesOfItsSizeAreNoPause) {
  Sender sender(1e9, 0.05);
  constexpr std::size_t kMessageBytes = 12 * SendWindow::kSmallestFragmentBytes;
  const auto seconds = [&] {
    const double begun_s = sender.now_s;
    const std::size_t fragment_bytes = sender.window.fragment_bytes(begun_s);
    EXPECT_TRUE(sender.send_message(static_cast<int>((kMessageBytes - 1) / fragment_bytes) + 1));
    return sender.now_s - begun_s;
  };
  for (int i = 0; i < 60; ++i) {
    const double took_s = seconds();
    if (i >= 10) {
      EXPECT_LT(took_s, 0.08) << "message " << i << " took more than a round trip";
    }
    sender.now_s += 0.1;
  }
}

TEST(SendWindow, SmallMessagesDoNotWidenIt) {
  SendWindow window(kLarge);
  window.cut_into(window.fragment_bytes(0));
  double now_s = 0;
  std::size_t unacknowledged_bytes = 0;
  for (int i = 0; i < 1000; ++i, now_s += 0.01) {
    constexpr std::size_t kBytes = 1000;
    ASSERT_TRUE(window.admits(kBytes));
    window.sent(kBytes, now_s);
    unacknowledged_bytes += kBytes;
    if (unacknowledged_bytes < kFragmentsAcknowledged * SendWindow::kSmallestFragmentBytes)
      continue;
    window.taken(unacknowledged_bytes, now_s + 1e-3);
    unacknowledged_bytes = 0;
  }
  EXPECT_LT(window.most_bytes(), 1.1 * kLeastBytes);
}

TEST(SendWindow, ARouteThatHasBecomeLongerIsNoQueueForEver) {
  constexpr double kBytesPerS = 1e7;
  Sender sender(kBytesPerS, 0.02);
  EXPECT_TRUE(sender.send_message(1000));
  sender.set_latency(1);
  EXPECT_TRUE(sender.send_message(200));
  EXPECT_LT(sender.window.most_bytes(), 10 * kLeastBytes);
  while (sender.now_s < 3000) EXPECT_TRUE(sender.send_message(200));
  EXPECT_EQ(sender.window.most_bytes(), 1'000'000);
}

// Whatever was sent before, and however the next message is cut: the receiver acknowledges by the
// message that comes, the sender waits by the one that it has begun.
TEST(SendWindow, ItNeverWaitsForWhatNobodyWillSay) {
  for (const std::size_t before : {SendWindow::kSmallestFragmentBytes, kLarge}) {
    for (const std::size_t next : {SendWindow::kSmallestFragmentBytes, kLarge}) {
      SendWindow window(kLarge);
      std::size_t ahead_bytes = 0;
      const auto send_all_that_may = [&](std::size_t fragment_bytes) {
        for (; window.admits(fragment_bytes); ahead_bytes += fragment_bytes) {
          window.sent(fragment_bytes, 0);
        }
      };
      window.cut_into(before);
      send_all_that_may(before);
      ASSERT_GE(ahead_bytes, kFragmentsAcknowledged * before);
      // All but what the receiver may leave without an answer.
      window.taken(ahead_bytes - (kFragmentsAcknowledged * before - 1), 1e9);
      ahead_bytes = kFragmentsAcknowledged * before - 1;
      constexpr std::size_t kFirstPiece = 4000;
      ASSERT_TRUE(window.admits(kFirstPiece)) << before << " " << next;
      window.cut_into(next);
      window.sent(kFirstPiece, 1e9);
      ahead_bytes += kFirstPiece;
      send_all_that_may(next);
      EXPECT_GE(ahead_bytes, kFragmentsAcknowledged * next) << before << " " << next;
    }
  }
}

}  // namespace
}  // namespace swarmpi::send_window_test
