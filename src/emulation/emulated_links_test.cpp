#include "emulation/emulated_links.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "protocol/messages/liveness.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/transport_port.hpp"

namespace swarmpi::emulated_links_test {
namespace {

constexpr PeerId kSelf{1}, kOther{2}, kThird{3};
constexpr double kLost = -1, kLarge = -2;

double number_of(const Message& message) {
  const auto* ping = get_if<PingMessage>(&message.body);
  return ping != nullptr ? ping->sent_s : kLarge;
}

struct FakeClock final : Clock {
  double now_s() const override { return time_s; }
  double time_s = 0;
};

// Remembers what it is given, and has events to be received.
class FakeTransport final : public Transport {
 public:
  void send(PeerId, Message message) override { sent.push_back(number_of(message)); }
  std::optional<Event> receive() override {
    if (events.empty()) return std::nullopt;
    Event event = std::move(events.front());
    events.pop_front();
    return event;
  }
  void wait(int, double timeout_s) override {
    waited_s.push_back(timeout_s);
    if (clock != nullptr) clock->time_s += timeout_s;
  }
  void kill(PeerId) override {}
  void spawn() override {}
  bool flush(double) override { return true; }

  std::vector<double> sent;
  std::deque<Event> events;
  std::vector<double> waited_s;
  FakeClock* clock = nullptr;  // which a wait sets ahead
};

// Each message is that of a ping, of so many bytes; at 8 kbit/s a byte takes a millisecond.
class EmulatedLinksTest : public testing::Test {
 protected:
  static Config deck(double latency_s, double up_mbps, double down_mbps) {
    Config config;
    config.compute.fidelity = Fidelity::emulated;
    config.links = {{"slow", latency_s, 0, up_mbps, down_mbps}};
    config.peer_classes = {{{}, "", PeerKernels::as_all, "slow"}};
    return config;
  }
  // These peers share an uplink of 8 kbit/s; the others are nowhere.
  static Config site_of(const std::vector<std::int64_t>& peers) {
    Config config;
    config.compute.fidelity = Fidelity::emulated;
    config.sites = {{"a", 0.008, 0}};
    config.peer_classes.emplace_back().peers = peers;
    config.peer_classes.back().site = "a";
    return config;
  }
  static Message ping(double number) { return {{}, {}, PingMessage{number}}; }
  static Message large(std::size_t size_bytes) {
    return {{}, {}, ForwardMessage{{}, Payload::hollow(size_bytes), {}}};
  }
  // As large as a ping, but it overtakes nothing.
  void send(EmulatedLinks& links, double at_s, PeerId to, double number) {
    clock_.time_s = at_s;
    links.send(to, ping(number));
  }
  /// What the peer receives at this time.
  std::vector<double> received(EmulatedLinks& links, double at_s) {
    clock_.time_s = at_s;
    std::vector<double> numbers;
    while (const std::optional<Event> event = links.receive()) {
      const auto* arrived = get_if<MessageArrived>(&*event);
      numbers.push_back(arrived ? number_of(arrived->message) : kLost);
    }
    return numbers;
  }
  using Numbers = std::vector<double>;

  FakeClock clock_;
  FakeTransport below_;
};

TEST_F(EmulatedLinksTest, OnlyDecksThatEmulateAndHaveLinksHaveThem) {
  Config config = deck(0.01, 0, 0);
  EXPECT_TRUE(emulates_links(config));
  config.compute.fidelity = Fidelity::real;
  EXPECT_FALSE(emulates_links(config));
  config = Config();
  config.compute.fidelity = Fidelity::emulated;
  EXPECT_FALSE(emulates_links(config));
}

TEST_F(EmulatedLinksTest, AMessageLeavesWhenItWouldHaveCome) {
  EmulatedLinks links(kSelf, below_, deck(0.01, 0, 0), clock_);
  send(links, 0, kOther, 1);
  send(links, 0.005, kThird, 2);
  EXPECT_TRUE(below_.sent.empty());
  EXPECT_EQ(received(links, 0.019), Numbers{});
  EXPECT_TRUE(below_.sent.empty());
  received(links, 0.02);
  EXPECT_EQ(below_.sent, Numbers{1});
  received(links, 0.025);
  EXPECT_EQ(below_.sent, (Numbers{1, 2}));
}

TEST_F(EmulatedLinksTest, MessagesQueueAtTheUplinkInOrder) {
  EmulatedLinks links(kSelf, below_, deck(0, 0.008, 0), clock_);
  for (int i = 1; i <= 3; ++i) send(links, 0, kOther, i);
  EXPECT_EQ(below_.sent, Numbers{1}) << "its first byte leaves at once";
  received(links, 0.02);
  EXPECT_EQ(below_.sent, Numbers{1}) << "one has more than 20 bytes";
  received(links, 0.15);
  EXPECT_LT(below_.sent.size(), 4u);
  received(links, 1);
  EXPECT_EQ(below_.sent, (Numbers{1, 2, 3}));
}

TEST_F(EmulatedLinksTest, WhatHasComeWaitsAtTheDownlinkOfItsReceiver) {
  EmulatedLinks links(kSelf, below_, deck(0, 0, 0.008), clock_);
  below_.events.emplace_back(MessageArrived{kOther, ping(1)});
  below_.events.emplace_back(MessageArrived{kOther, ping(2)});
  EXPECT_EQ(received(links, 0), Numbers{});
  EXPECT_EQ(received(links, 0.02), Numbers{});
  EXPECT_EQ(received(links, 1), (Numbers{1, 2}));
}

// Where each has the same rate a message that follows another waits for nothing at the downlink,
// whatever small message came in between.
TEST_F(EmulatedLinksTest, ASmallMessageOfAnotherPeerHoldsALargeOneUpByItsOwnBytesOnly) {
  constexpr double kLargeS = 2.2;  // 2000 bytes, and its header
  EmulatedLinks links(kSelf, below_, deck(0, 0.008, 0.008), clock_);
  below_.events.emplace_back(MessageArrived{kOther, large(2000)});
  EXPECT_EQ(received(links, 0), Numbers{});
  below_.events.emplace_back(MessageArrived{kThird, ping(7)});
  EXPECT_EQ(received(links, 1.9), Numbers{});
  EXPECT_EQ(received(links, kLargeS), (Numbers{7, kLarge}));
  below_.events.emplace_back(MessageArrived{kOther, large(2000)});
  EXPECT_EQ(received(links, kLargeS), Numbers{});
  EXPECT_EQ(received(links, 2 * kLargeS), Numbers{kLarge});
}

TEST_F(EmulatedLinksTest, APeersLossComesBehindItsMessagesAndOverTheLink) {
  EmulatedLinks links(kSelf, below_, deck(0.01, 0, 0), clock_);
  below_.events.emplace_back(MessageArrived{kOther, ping(1)});
  below_.events.emplace_back(PeerLost{kOther});
  below_.events.emplace_back(KillFailed{kThird});
  EXPECT_EQ(received(links, 0), (Numbers{1, kLost})) << "1 has waited at its sender; a KillFailed";
  EXPECT_EQ(received(links, 0.02), Numbers{kLost});
}

TEST_F(EmulatedLinksTest, WhatWasStillLeavingAPeerThatDiesNeverComes) {
  EmulatedLinks links(kSelf, below_, deck(0, 0.008, 0.008), clock_);
  below_.events.emplace_back(MessageArrived{kOther, large(2000)});  // takes 2.2 s to leave
  EXPECT_EQ(received(links, 0), Numbers{});
  below_.events.emplace_back(PeerLost{kOther});
  EXPECT_EQ(received(links, 0.5), Numbers{kLost}) << "the loss does not wait for it";
  EXPECT_EQ(received(links, 10), Numbers{});
}

TEST_F(EmulatedLinksTest, WhatHadLeftItComesBeforeTheLoss) {
  EmulatedLinks links(kSelf, below_, deck(0, 0.008, 0.008), clock_);
  below_.events.emplace_back(MessageArrived{kOther, large(2000)});
  below_.events.emplace_back(MessageArrived{kThird, large(2000)});  // they share the downlink
  EXPECT_EQ(received(links, 0), Numbers{});
  below_.events.emplace_back(PeerLost{kThird});
  EXPECT_EQ(received(links, 2.3), Numbers{kLarge});
  EXPECT_EQ(received(links, 10), (Numbers{kLarge, kLost}));
}

TEST_F(EmulatedLinksTest, WhatAPeerSendsItselfIsNotHeld) {
  EmulatedLinks links(kSelf, below_, deck(1, 1, 1), clock_);
  send(links, 0, kSelf, 1);
  EXPECT_EQ(below_.sent, Numbers{1});
  below_.events.emplace_back(MessageArrived{kSelf, ping(1)});
  EXPECT_EQ(received(links, 0), Numbers{1});
}

TEST_F(EmulatedLinksTest, ItSleepsUntilSomethingIsDue) {
  EmulatedLinks links(kSelf, below_, deck(0.01, 0, 0), clock_);
  links.wait(-1, 5);
  send(links, 0, kOther, 1);
  clock_.time_s = 0.015;
  links.wait(-1, 5);
  clock_.time_s = 0.03;
  links.wait(-1, 5);
  ASSERT_EQ(below_.waited_s.size(), 3u);
  EXPECT_EQ(below_.waited_s[0], 5);
  EXPECT_NEAR(below_.waited_s[1], 0.005, 1e-6);
  EXPECT_EQ(below_.waited_s[2], 5) << "nothing is held any more";
  EXPECT_EQ(below_.sent, Numbers{1});
}

TEST_F(EmulatedLinksTest, CountsTheTimeInWhichSomethingLeaves) {
  EmulatedLinks links(kSelf, below_, deck(10, 0.008, 0), clock_);
  send(links, 1, kOther, 1);
  received(links, 1.01);
  EXPECT_NEAR(links.carried_s(), 0.01, 1e-6) << "of some tens of ms; not of the latency";
  received(links, 2);
  EXPECT_LT(links.carried_s(), 0.2);
  EXPECT_GT(links.carried_s(), 0.02);
}

// What follows may be a timer: nothing is received before its time is booked.
TEST_F(EmulatedLinksTest, KnowsAfterAWaitWhatLeftMeanwhile) {
  EmulatedLinks links(kSelf, below_, deck(0, 0.008, 0), clock_);
  below_.clock = &clock_;
  send(links, 1, kOther, 1);
  links.wait(-1, 0.005);
  EXPECT_NEAR(links.carried_s(), 0.005, 1e-6);
}

TEST_F(EmulatedLinksTest, AtTheEndAllThatIsLeftLeaves) {
  EmulatedLinks links(kSelf, below_, deck(100, 0, 0), clock_);
  send(links, 0, kOther, 1);
  EXPECT_TRUE(links.flush(0));
  EXPECT_EQ(below_.sent, Numbers{1});
}

TEST_F(EmulatedLinksTest, TheNextPeerInheritsNothing) {
  EmulatedLinks links(kSelf, below_, deck(0.01, 0, 0), clock_);
  send(links, 0, kOther, 1);
  below_.events.emplace_back(PeerLost{kOther});
  EXPECT_EQ(received(links, 0), Numbers{});
  links.clear();
  links.admit(PeerId(7));
  EXPECT_EQ(received(links, 1), Numbers{});
  EXPECT_TRUE(below_.sent.empty());
}

// The sender's process is gone, and what it had not sent; only its share of the line is not.
TEST_F(EmulatedLinksTest, ALossDoesNotWaitForWhatTheDeadHadOnASharedLine) {
  const Config config = site_of({kOther.value});
  OwnLines lines(common_mbps(config));
  FakeTransport below_other;
  EmulatedLinks of_other(kOther, below_other, config, clock_, &lines);
  EmulatedLinks links(kSelf, below_, config, clock_, &lines);
  clock_.time_s = 0;
  of_other.send(kSelf, large(2000));
  of_other.send(kSelf, large(2000));
  below_.events.emplace_back(PeerLost{kOther});
  EXPECT_EQ(received(links, 0.1), Numbers{kLost});
}

// Both at the site send at the same time, and each has half of its uplink.
TEST_F(EmulatedLinksTest, PeersOfASiteShareItsLine) {
  const Config config = site_of({kSelf.value, kThird.value});
  OwnLines lines(common_mbps(config));
  FakeTransport below_third;
  EmulatedLinks links(kSelf, below_, config, clock_, &lines);
  EmulatedLinks of_third(kThird, below_third, config, clock_, &lines);
  clock_.time_s = 0;
  links.send(kOther, large(2000));
  of_third.send(kOther, large(2000));
  of_third.send(kSelf, large(2000));
  EXPECT_EQ(below_third.sent, Numbers{kLarge}) << "within the site the line is not in the way";
  received(links, 0.1);
  EXPECT_EQ(below_.sent, Numbers{kLarge}) << "it came first, to a free line";
  received(of_third, 1.9);
  EXPECT_EQ(below_third.sent, Numbers{kLarge});
  received(of_third, 2.3);
  EXPECT_EQ(below_third.sent, (Numbers{kLarge, kLarge}));
}

}  // namespace
}  // namespace swarmpi::emulated_links_test
