#include "transport/mpi/send_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "protocol/messages/lanes.hpp"

namespace swarmpi {
namespace {

constexpr std::size_t kLarge = 65'536;
constexpr auto kLeastBytes = static_cast<std::size_t>(kAhead.least_bytes);

/// A sender that has no end of data for one receiver, over a line that carries so much.
class Sender {
 public:
  explicit Sender(double bytes_per_s, double latency_s = 1e-4)
      : bytes_per_s_(bytes_per_s), latency_s_(latency_s) {}

  void set_rate(double bytes_per_s) { bytes_per_s_ = bytes_per_s; }

  /// A message of several fragments, the next as soon as the window admits it. The receiver
  /// acknowledges two at a time. False if it comes to stand.
  bool send_message(int fragments) {
    const std::size_t fragment_bytes = window.fragment_bytes();
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
  const SendWindow window(kLarge);
  EXPECT_EQ(window.most_bytes(), kLeastBytes);
  EXPECT_EQ(window.fragment_bytes(), SendWindow::kSmallFragmentBytes);
}

TEST(SendWindow, AFastLinkHasAMegabyteUnderWay) {
  Sender sender(1e9);
  EXPECT_TRUE(sender.send_message(100));
  EXPECT_TRUE(sender.send_message(100));
  EXPECT_EQ(sender.window.most_bytes(), 1'000'000);
  EXPECT_EQ(sender.window.fragment_bytes(), kLarge);
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
  EXPECT_EQ(sender.window.fragment_bytes(), SendWindow::kSmallFragmentBytes);
  // The others are through.
  sender.set_rate(1e9);
  EXPECT_TRUE(sender.send_message(100));
  EXPECT_TRUE(sender.send_message(100));
  EXPECT_EQ(sender.window.most_bytes(), 1'000'000);
}

TEST(SendWindow, BetweenTheseHalfASecondOfItWaitsForTheLine) {
  constexpr double kBytesPerS = 1e6, kLatencyS = 0.2;
  Sender sender(kBytesPerS, kLatencyS);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(sender.send_message(100));
  const double most_bytes = static_cast<double>(sender.window.most_bytes());
  EXPECT_NEAR(most_bytes / kBytesPerS - kLatencyS, kAhead.most_s, 0.06);
}

// A word of the protocol that waits behind the messages of others says nothing of its own.
TEST(SendWindow, SmallMessagesDoNotNarrowIt) {
  Sender sender(1e9);
  EXPECT_TRUE(sender.send_message(100));
  EXPECT_TRUE(sender.send_message(100));
  SendWindow& window = sender.window;
  window.sent(1000, sender.now_s);
  window.taken(1000, sender.now_s + 1);
  EXPECT_EQ(window.most_bytes(), 1'000'000);
}

TEST(SendWindow, APauseSaysNothingOfTheLine) {
  Sender sender(1e9);
  EXPECT_TRUE(sender.send_message(100));
  EXPECT_TRUE(sender.send_message(100));
  sender.window.sent(kLarge, sender.now_s);  // too few for the receiver to say anything
  sender.window.sent(kLarge, sender.now_s + 60);
  sender.window.taken(2 * kLarge, sender.now_s + 60 + 1e-3);
  EXPECT_EQ(sender.window.most_bytes(), 1'000'000);
}

// Whatever was sent before, and however the next message is cut: the receiver acknowledges by the
// message that comes, the sender waits by the one that it has begun.
TEST(SendWindow, ItNeverWaitsForWhatNobodyWillSay) {
  for (const std::size_t before : {SendWindow::kSmallFragmentBytes, kLarge}) {
    for (const std::size_t next : {SendWindow::kSmallFragmentBytes, kLarge}) {
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
}  // namespace swarmpi
