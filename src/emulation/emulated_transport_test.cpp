#include "emulation/emulated_transport.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>

#include "protocol/messages/liveness.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/transport_port.hpp"

namespace swarmpi::emulated_transport_test {
namespace {

constexpr PeerId kSelf{1}, kOther{2};
constexpr double kLost = -1;

// Remembers what it is given, and has events to be received.
class FakeTransport final : public Transport {
 public:
  void send(PeerId to, Message message) override {
    sent.push_back(get<PingMessage>(message.body).sent_s);
    if (to == kSelf) events.emplace_back(MessageArrived{to, std::move(message)});
  }
  std::optional<Event> receive() override {
    look();
    if (events.empty()) return std::nullopt;
    Event event = std::move(events.front());
    events.pop_front();
    return event;
  }
  void wait(int, double) override {
    ++waits;
    look();
  }
  void kill(PeerId peer) override { killed.push_back(peer); }
  void spawn() override {}
  bool flush(double) override {
    look();
    return true;
  }
  bool ended() const override { return ordered_to_die || run_is_over; }
  void drop_kill_order() override { ordered_to_die = false; }

  std::vector<double> sent;
  std::deque<Event> events;
  std::vector<PeerId> killed;
  int waits = 0;
  bool order_is_on_its_way = false;
  bool run_is_over = false;

 private:
  void look() { ordered_to_die |= std::exchange(order_is_on_its_way, false); }

  bool ordered_to_die = false;
};

Message ping(double number) { return {{}, {}, PingMessage{number}}; }

class EmulatedTransportTest : public testing::Test {
 protected:
  void arrives(double number) { below_.events.emplace_back(MessageArrived{kOther, ping(number)}); }
  /// The numbers of all pings that the peer receives, and kLost for a PeerLost.
  std::vector<double> received() {
    std::vector<double> numbers;
    while (const std::optional<Event> event = transport_.receive()) {
      const auto* arrived = get_if<MessageArrived>(&*event);
      numbers.push_back(arrived ? get<PingMessage>(arrived->message.body).sent_s : kLost);
    }
    return numbers;
  }
  using Numbers = std::vector<double>;

  FakeTransport below_;
  Inbox inbox_;
  EmulatedTransport transport_{kSelf, below_, inbox_};
};

TEST_F(EmulatedTransportTest, WithoutAFaultAllPassesThrough) {
  transport_.send(kOther, ping(1));
  transport_.kill(kOther);
  arrives(2);
  EXPECT_EQ(below_.sent, Numbers{1});
  EXPECT_EQ(below_.killed, std::vector{kOther});
  EXPECT_EQ(received(), Numbers{2});
  EXPECT_FALSE(transport_.ended());
}

TEST_F(EmulatedTransportTest, ADeadPeerSendsNothing) {
  transport_.inject_fault(FaultEvent::kill);
  EXPECT_TRUE(transport_.ended());
  transport_.send(kOther, ping(1));
  EXPECT_TRUE(below_.sent.empty());
  transport_.wait(-1, 1);
  EXPECT_EQ(below_.waits, 0) << "whoever waits is to see that the peer is dead";
}

TEST_F(EmulatedTransportTest, ANoticeIsAStopRequestLikeASignalToWhoeverLives) {
  transport_.inject_fault(FaultEvent::notice);
  EXPECT_TRUE(holds_alternative<StopRequested>(inbox_.take().value()));
  transport_.inject_fault(FaultEvent::kill);
  transport_.inject_fault(FaultEvent::notice);
  EXPECT_FALSE(inbox_.take());
}

TEST_F(EmulatedTransportTest, WhatACutHoldsComesInOrderWhenItIsHealed) {
  transport_.inject_fault(FaultEvent::cut);
  transport_.send(kOther, ping(1));
  transport_.send(kSelf, ping(2));
  arrives(3);
  below_.events.emplace_back(PeerLost{kOther});
  EXPECT_EQ(received(), Numbers{2}) << "a peer is not cut off from itself";
  EXPECT_EQ(below_.sent, Numbers{2});
  transport_.inject_fault(FaultEvent::heal);
  arrives(4);
  transport_.wait(-1, 1);
  EXPECT_EQ(below_.waits, 0);
  transport_.send(kOther, ping(5));
  EXPECT_EQ(below_.sent, (Numbers{2, 1, 5}));
  EXPECT_EQ(received(), (Numbers{3, kLost, 4}));
}

TEST_F(EmulatedTransportTest, AcrossACutNobodyKillsAnybody) {
  transport_.inject_fault(FaultEvent::cut);
  transport_.kill(kOther);
  EXPECT_TRUE(below_.killed.empty());
  EXPECT_TRUE(holds_alternative<KillFailed>(inbox_.take().value()));
  below_.order_is_on_its_way = true;
  transport_.wait(-1, 1);
  EXPECT_FALSE(transport_.ended()) << "before receive() or wait() is called again";
  below_.order_is_on_its_way = true;
  EXPECT_FALSE(transport_.receive());
  EXPECT_FALSE(transport_.ended());
  below_.order_is_on_its_way = true;
  transport_.flush(0);
  transport_.inject_fault(FaultEvent::heal);
  EXPECT_FALSE(transport_.ended()) << "the cut has not held the order up: it is lost";
  below_.order_is_on_its_way = true;
  transport_.receive();
  EXPECT_TRUE(transport_.ended());
}

// Else it would wait for a heal that may never come, and without sleeping.
TEST_F(EmulatedTransportTest, ThatTheRunIsOverEndsAlsoAPeerThatIsCutOff) {
  transport_.inject_fault(FaultEvent::cut);
  below_.run_is_over = true;
  EXPECT_TRUE(transport_.ended());
}

TEST_F(EmulatedTransportTest, APeerThatIsStoppedReceivesNothingUntilItContinues) {
  arrives(1);
  transport_.inject_fault(FaultEvent::stop);
  const auto begin = std::chrono::steady_clock::now();
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    transport_.inject_fault(FaultEvent::go_on);
  });
  EXPECT_EQ(received(), Numbers{1});
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
  later.join();
}

TEST_F(EmulatedTransportTest, APeerThatIsStoppedCanBeKilled) {
  transport_.inject_fault(FaultEvent::stop);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    transport_.inject_fault(FaultEvent::kill);
  });
  received();
  EXPECT_TRUE(transport_.ended());
  later.join();
}

TEST_F(EmulatedTransportTest, TheNextPeerInheritsNothingButADeathNotice) {
  transport_.inject_fault(FaultEvent::cut);
  transport_.send(kOther, ping(1));
  arrives(2);
  EXPECT_EQ(received(), Numbers{});
  transport_.inject_fault(FaultEvent::kill);
  transport_.clear();
  bool announced = false;
  transport_.depart([&] { announced = true; });
  EXPECT_EQ(received(), Numbers{});
  EXPECT_FALSE(announced) << "the cut holds it, too";
  transport_.admit(PeerId(7));
  EXPECT_FALSE(transport_.ended());
  arrives(3);
  EXPECT_EQ(received(), Numbers{3});
  EXPECT_TRUE(announced);
  EXPECT_TRUE(below_.sent.empty());
}

}  // namespace
}  // namespace swarmpi::emulated_transport_test
