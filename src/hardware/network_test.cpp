#include "hardware/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/random.hpp"

namespace swarmpi::network_test {
namespace {

constexpr Nanoseconds kMs = 1'000'000;
constexpr std::int64_t kMegabyte = 1'000'000;  // takes 80 ms at 100 Mbit/s

Config homes(double latency_s, double up_mbps, double down_mbps) {
  Config config;
  config.links = {{"home", latency_s, 0, up_mbps, down_mbps}};
  config.peer_classes = {{{}, "", PeerKernels::as_all, "home"}};
  return config;
}

Shipment shipment(int from, int to, std::int64_t bytes) {
  return {PeerId(from), PeerId(to), bytes};
}

// When a message has arrived that is handed over now, if nothing else comes to its receiver's line
// before its first byte does.
Nanoseconds arrival(Network& network, const Shipment& sent, Nanoseconds now) {
  const Passage passage = network.leave(sent, now);
  const Nanoseconds first_byte = passage.last - network.spread(sent);
  return network.arrive(sent, {std::max(passage.first, first_byte), passage.last});
}

Nanoseconds arrival_over(const Config& config, const Shipment& sent, Nanoseconds now) {
  Network network(config);
  return arrival(network, sent, now);
}

TEST(Network, WithoutLinksAllArrivesAtOnce) {
  Network network{Config{}};
  EXPECT_EQ(arrival(network, shipment(0, 1, kMegabyte), 7), 7);
  EXPECT_FALSE(network.concerns(PeerId(0)));
}

TEST(Network, AMessageTakesTheLatencyOfBothEndsAndItsBytesAtTheSlowestLine) {
  Network network(homes(0.005, 100, 400));
  EXPECT_TRUE(network.concerns(PeerId(3)));
  EXPECT_EQ(arrival(network, shipment(0, 1, kMegabyte), 0), 90 * kMs);
  EXPECT_EQ(arrival_over(homes(0.005, 400, 100), shipment(0, 1, kMegabyte), 0), 90 * kMs);
  EXPECT_EQ(arrival_over(homes(0.005, 0, 0), shipment(0, 1, kMegabyte), kMs), 11 * kMs);
}

TEST(Network, AConnectionBeginsSlowlyWhereALinkSaysSo) {
  Config config = homes(0.0125, 50, 50);
  config.links[0].slow_start = true;
  Network network(config);
  const Nanoseconds first = arrival(network, shipment(0, 1, kMegabyte), 0);
  EXPECT_GT(first, 25 * kMs + 300 * kMs) << "five round trips of 50 ms, and half of it after them";
  const Nanoseconds now = first + 100 * kMs;
  EXPECT_EQ(arrival(network, shipment(0, 1, kMegabyte), now), now + 185 * kMs) << "it is open";
  EXPECT_EQ(arrival(network, shipment(0, 2, kMegabyte), now + 1000 * kMs) - now - 1000 * kMs, first)
      << "another connection";
}

TEST(Network, AConnectionBeginsLaterBehindWhatIsInTheQueuesOfItsSender) {
  Config config = homes(0.0125, 50, 50);
  config.links[0].slow_start = true;
  const auto takes = [&](const std::vector<Shipment>& before) {
    Network network(config);
    for (const Shipment& other : before) arrival(network, other, 0);
    return arrival(network, shipment(0, 1, 60'000), 0);
  };
  const Nanoseconds alone = takes({});
  EXPECT_EQ(alone, 25 * kMs + 2 * 50 * kMs + (60'000 - 3 * 14'480) * 160);
  EXPECT_EQ(takes({shipment(0, 2, kMegabyte)}), alone + 2 * 16 * kMs) << "data, in two round trips";
  EXPECT_EQ(takes({shipment(3, 4, kMegabyte)}), alone) << "not its own lines";
}

TEST(Network, AcknowledgementsKeepAConnectionOpen) {
  Config config = homes(0.0125, 50, 50);
  config.links[0].slow_start = true;
  Network network(config), rested(config);
  const Nanoseconds first = arrival(network, shipment(0, 1, kMegabyte), 0);
  ASSERT_EQ(arrival(rested, shipment(0, 1, kMegabyte), 0), first);
  Nanoseconds now = first;
  for (int i = 0; i < 20; ++i) now = arrival(network, shipment(1, 0, kMegabyte), now);
  EXPECT_EQ(arrival(network, shipment(0, 1, kMegabyte), now), now + 185 * kMs);
  EXPECT_GT(arrival(rested, shipment(0, 1, kMegabyte), now), now + 300 * kMs);
}

// A simulated message is booked at its receiver as it leaves, one latency before it comes.
TEST(Network, WhatIsToComeTakesNothingFromWhatTheReceiverSendsBefore) {
  Config config = homes(0.0125, 50, 50);
  config.links[0].slow_start = true;
  const auto send = [&](bool comes) {
    Network network(config);
    std::vector<Nanoseconds> left;
    Nanoseconds now = 0;
    for (int i = 0; i < 20; ++i) now = arrival(network, shipment(0, 2, kMegabyte), now);
    network.leave(shipment(0, 2, kMegabyte), now);
    if (comes) arrival(network, shipment(1, 0, 10'000), now);
    for (const auto& [to, bytes] : {std::pair(1, 1000), std::pair(3, 10'000)}) {
      left.push_back(network.leave(shipment(0, to, bytes), now + kMs).last - now);
    }
    return left;
  };
  EXPECT_EQ(send(true), send(false));
}

TEST(Network, WhatAPeerSendsItselfArrivesAtOnce) {
  EXPECT_EQ(arrival_over(homes(1, 1, 1), shipment(2, 2, kMegabyte), 5), 5);
}

TEST(Network, MessagesToOnePeerQueueAtTheUplink) {
  Network network(homes(0, 100, 0));
  EXPECT_EQ(arrival(network, shipment(0, 1, kMegabyte), 0), 80 * kMs);
  EXPECT_EQ(arrival(network, shipment(0, 1, kMegabyte), 10 * kMs), 160 * kMs);
  EXPECT_EQ(arrival(network, shipment(0, 1, kMegabyte), 200 * kMs), 280 * kMs) << "idle meanwhile";
}

TEST(Network, ASmallMessageToAnotherPeerDoesNotWaitForALargeOne) {
  Network network(homes(0, 100, 0));
  arrival(network, shipment(0, 1, kMegabyte), 0);
  EXPECT_EQ(arrival(network, shipment(0, 2, 1000), 0), 160'000) << "it has half of the line";
  EXPECT_EQ(arrival(network, shipment(0, 3, kMegabyte), 0), 160 * kMs + 80'000)
      << "what others have sent is not forgotten";
}

TEST(Network, MessagesOfTwoPeersShareTheReceiversDownlink) {
  Network network(homes(0, 0, 100));
  EXPECT_EQ(arrival(network, shipment(0, 2, kMegabyte), 0), 80 * kMs);
  EXPECT_EQ(arrival(network, shipment(1, 2, kMegabyte), 0), 160 * kMs);
}

TEST(Network, ASlowSenderDoesNotHoldUpAFastReceiver) {
  Config config = homes(0, 0, 1000);
  config.links.push_back({"slow", 0, 0, 1, 0});
  config.peer_classes.push_back({{0}, "", PeerKernels::as_all, "slow"});
  Network network(config);
  EXPECT_EQ(arrival(network, shipment(0, 2, kMegabyte), 0), 8000 * kMs);
  EXPECT_EQ(arrival(network, shipment(1, 2, kMegabyte), 100 * kMs), 108 * kMs);
}

TEST(Network, PeersOfASiteShareItsUplink) {
  Config config = homes(0, 100, 0);
  config.sites = {{"campus", 100, 0}, {"cloud"}};
  config.peer_classes = {{{0, 1}, "", PeerKernels::as_all, "home", "campus"},
                         {{2}, "", PeerKernels::as_all, "", "cloud"}};
  Network network(config);
  EXPECT_EQ(arrival(network, shipment(0, 2, kMegabyte), 0), 80 * kMs);
  EXPECT_EQ(arrival(network, shipment(1, 2, kMegabyte), 0), 160 * kMs);
  EXPECT_EQ(arrival(network, shipment(1, 0, kMegabyte), 160 * kMs), 240 * kMs)
      << "within the site nothing is shared";
}

TEST(Network, ARouteHasALatencyAndARateInEachDirection) {
  Config config;
  config.sites = {{"here"}, {"there"}, {"elsewhere"}};
  config.routes = {{{"here", "there"}, 0.02, 100}};
  config.peer_classes = {{{0, 1}, "", PeerKernels::as_all, "", "here"},
                         {{2}, "", PeerKernels::as_all, "", "there"},
                         {{3}, "", PeerKernels::as_all, "", "elsewhere"}};
  Network network(config);
  EXPECT_EQ(arrival(network, shipment(0, 2, kMegabyte), 0), 100 * kMs);
  EXPECT_EQ(arrival(network, shipment(1, 2, kMegabyte), 0), 180 * kMs);
  EXPECT_EQ(arrival(network, shipment(2, 0, kMegabyte), 0), 100 * kMs);
  EXPECT_EQ(arrival(network, shipment(0, 3, kMegabyte), 0), 0);
}

TEST(Network, WhatOvertakesWaitsBehindABoundedNumberOfBytesOfItsPair) {
  Network network(homes(0, 100, 0), {kMegabyte, kMegabyte, 0});
  arrival(network, shipment(0, 1, 50 * kMegabyte), 0);
  const Shipment beat{PeerId(0), PeerId(1), 1000, true};
  EXPECT_EQ(arrival(network, beat, 0), 80 * kMs + 80'000);
}

TEST(Network, ASignOfLifeWaitsLessWhereTheLineIsSharedByMany) {
  // 12.5 MB/s. Of what a hundred pairs have sent the line carries 6.25 MB in half a second, and of
  // each pair 62,500 bytes.
  Network network(homes(0, 100, 0), {50'000, kMegabyte, 0.5});
  for (int to = 1; to <= 100; ++to) arrival(network, shipment(0, to, 10 * kMegabyte), 0);
  Shipment beat = shipment(0, 50, 0);
  beat.overtakes = true;
  EXPECT_NEAR(static_cast<double>(arrival(network, beat, 0)), 500e6, 1e6);
  // A pair on its own may have more ahead.
  Network of_two(homes(0, 100, 0), {50'000, kMegabyte, 0.5});
  arrival(of_two, shipment(0, 50, 10 * kMegabyte), 0);
  EXPECT_EQ(arrival(of_two, beat, 0), 80 * kMs);
}

TEST(Network, JitterIsBoundedAndTheSameEachTime) {
  Config config = homes(0.001, 0, 0);
  config.links[0].jitter_s = 0.002;
  Network network(config), again(config);
  Nanoseconds least = 100 * kMs, most = 0;
  for (int i = 0; i < 200; ++i) {
    const Nanoseconds arrived = arrival(network, shipment(0, 1, 10), 0);
    EXPECT_EQ(arrival(again, shipment(0, 1, 10), 0), arrived);
    least = std::min(least, arrived);
    most = std::max(most, arrived);
  }
  EXPECT_GE(least, 2 * kMs);
  EXPECT_LT(least, 3 * kMs);
  EXPECT_GT(most, 5 * kMs);
  EXPECT_LT(most, 6 * kMs);
}

// It is never idle while there is something, and never faster than it is.
TEST(Network, ALineCarriesItsRate) {
  Network network(homes(0, 80, 0));
  RandomStream random(3, Stream::test, 1);
  std::int64_t bytes = 0;
  Nanoseconds last = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto size = random.between(1, 100'000);
    const int to = static_cast<int>(random.between(1, 9));
    last = std::max(last, arrival(network, shipment(0, to, size), 1000 * i));
    bytes += size;
  }
  const double whole_ns = 100.0 * static_cast<double>(bytes);
  EXPECT_LE(static_cast<double>(last), whole_ns);
  EXPECT_GE(static_cast<double>(last), 0.99 * whole_ns);
}

TEST(Network, MessagesOfOnePairLeaveInOrder) {
  Config config = homes(0.001, 100, 150);
  Network network(config);
  RandomStream random(3, Stream::test, 2);
  std::map<std::pair<int, int>, Nanoseconds> last;
  for (int i = 0; i < 5000; ++i) {
    const int from = static_cast<int>(random.between(0, 4));
    const int to = static_cast<int>(random.between(5, 8));
    const Shipment sent = shipment(from, to, random.between(1, 100'000));
    const Passage passage = network.leave(sent, 3 * kMs / 2 * i);
    EXPECT_GE(passage.last, (last[{from, to}]));
    last[{from, to}] = passage.last;
  }
}

// 5 MB each take 0.8 s: the last of ten begins to come 7.2 s later. Meanwhile what is small shares
// the receiver's line with one of them at a time.
TEST(Network, WhatWaitsAtItsSenderLeavesTheReceiversLineToOthers) {
  Network network(homes(0.001, 50, 50));
  std::multimap<Nanoseconds, Shipment> coming;
  for (int i = 0; i < 10; ++i) {
    const Shipment large = shipment(0, 2, 5 * kMegabyte);
    const Passage passage = network.leave(large, 0);
    coming.emplace(passage.last - network.spread(large), large);
  }
  EXPECT_EQ(coming.rbegin()->first, 7202 * kMs);
  const auto comes = [&](Nanoseconds until) {
    for (; !coming.empty() && coming.begin()->first <= until; coming.erase(coming.begin())) {
      const Nanoseconds first = coming.begin()->first;
      network.arrive(coming.begin()->second, {first, first + 800 * kMs});
    }
  };
  for (const Nanoseconds now : {500 * kMs, 4500 * kMs}) {
    comes(now);
    EXPECT_EQ(arrival(network, shipment(1, 2, kMegabyte / 10), now), now + 2 * kMs + 32 * kMs);
  }
}

TEST(Network, SenderAndReceiverMayBeInTwoProcesses) {
  const Config config = homes(0.003, 100, 120);
  Network whole(config), sender(config), receiver(config);
  for (const std::int64_t bytes : {kMegabyte, std::int64_t{10}, 3 * kMegabyte}) {
    const Shipment sent = shipment(0, 1, bytes);
    const Passage passage = sender.leave(sent, 0);
    EXPECT_EQ(receiver.arrive(sent, {passage.last - sender.spread(sent), passage.last}),
              arrival(whole, sent, 0));
  }
  Network idle(config);
  EXPECT_EQ(idle.spread(shipment(0, 1, kMegabyte)), 80 * kMs);
}

}  // namespace
}  // namespace swarmpi::network_test
