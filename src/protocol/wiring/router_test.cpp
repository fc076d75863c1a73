#include "protocol/wiring/router.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace swarmpi::router_test {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr StageId kStage(3);

std::vector<PeerId> ids(const std::vector<std::int32_t>& numbers) {
  std::vector<PeerId> peers;
  for (const std::int32_t number : numbers) peers.emplace_back(number);
  return peers;
}

std::unique_ptr<Router> router(Wiring policy, const std::vector<std::int32_t>& peers,
                               std::uint64_t seed = kSeed, std::int32_t self = 100,
                               StageId stage = kStage) {
  SwarmConfig swarm;
  swarm.wiring = policy;
  swarm.wiring_ties = WiringTies::random;
  swarm.seed = seed;
  auto made = make_router(swarm, PeerId(self), stage);
  made->set_peers(ids(peers), 0);
  return made;
}

MicrobatchId microbatch(std::int32_t index) { return {Step(1), Purpose::train, index}; }

/// How often each peer was chosen for `count` microbatches.
std::map<std::int32_t, int> choose_many(Router& router, int count) {
  std::map<std::int32_t, int> chosen;
  for (std::int32_t i = 0; i < count; ++i) ++chosen[router.choose(microbatch(i)).value];
  return chosen;
}

std::vector<std::int32_t> sequence(Router& router, int count) {
  std::vector<std::int32_t> chosen;
  for (std::int32_t i = 0; i < count; ++i) chosen.push_back(router.choose(microbatch(i)).value);
  return chosen;
}

using Seconds = std::map<std::int32_t, double>;  ///< what a microbatch takes, by peer

/// A step of microbatches, each measured as soon as it is placed.
std::map<std::int32_t, int> run_step(Router& router, const Seconds& taken_s, int microbatches) {
  std::map<std::int32_t, int> chosen;
  for (std::int32_t i = 0; i < microbatches; ++i) {
    const PeerId peer = router.choose(microbatch(i));
    ++chosen[peer.value];
    router.measured(peer, taken_s.at(peer.value));
  }
  return chosen;
}

void expect_shares(const std::map<std::int32_t, int>& chosen,
                   const std::map<std::int32_t, int>& expected, int tolerance) {
  for (const auto& [peer, count] : expected) {
    const auto found = chosen.find(peer);
    EXPECT_NEAR(found == chosen.end() ? 0 : found->second, count, tolerance) << "peer " << peer;
  }
}

TEST(Iwrr, BeginsWithEveryPeerWhenAllAreIdle) {
  const auto router = make_router(SwarmConfig{}, PeerId(0), StageId(0));
  const std::vector<PeerId> peers = {PeerId(0), PeerId(1), PeerId(2), PeerId(3)};
  router->set_peers(peers, 0);
  for (const PeerId peer : peers) router->measured(peer, peer == PeerId(3) ? 4.0 : 1.0);
  for (std::int32_t step = 0; step < 20; ++step) {
    router->all_idle();
    std::set<PeerId> first_round;
    std::map<PeerId, int> shares;
    for (std::int32_t i = 0; i < 13 + step; ++i) {
      const PeerId chosen = router->choose({Step(step), Purpose::train, i});
      if (i < 4) first_round.insert(chosen);
      ++shares[chosen];
    }
    // Whatever the last step left in the queue, the slow peer begins at once: else it would end
    // last.
    EXPECT_EQ(first_round.size(), 4u) << "step " << step;
    EXPECT_LE(shares[PeerId(3)] * 4, shares[PeerId(0)] + 4) << "step " << step;
  }
}

TEST(Iwrr, APeerFourTimesSlowerGetsAQuarterOfTheWork) {
  const auto iwrr = router(Wiring::iwrr, {0, 1, 2, 3});
  const Seconds taken_s = {{0, 0.01}, {1, 0.01}, {2, 0.01}, {3, 0.04}};
  run_step(*iwrr, taken_s, 52);
  std::map<std::int32_t, int> all;
  for (int step = 0; step < 100; ++step) {
    const auto chosen = run_step(*iwrr, taken_s, 52);
    expect_shares(chosen, {{0, 16}, {1, 16}, {2, 16}, {3, 4}}, 1);
    for (const auto& [peer, count] : chosen) all[peer] += count;
  }
  expect_shares(all, {{0, 1600}, {1, 1600}, {2, 1600}, {3, 400}}, 1);
}

TEST(Iwrr, SharesAreInterleavedNotGivenInBlocks) {
  const auto iwrr = router(Wiring::iwrr, {0, 1});
  const Seconds taken_s = {{0, 1}, {1, 3}};
  run_step(*iwrr, taken_s, 40);
  int since = 0;
  for (std::int32_t i = 0; i < 400; ++i) {
    const PeerId peer = iwrr->choose(microbatch(i));
    iwrr->measured(peer, taken_s.at(peer.value));
    since = peer == PeerId(1) ? 0 : since + 1;
    ASSERT_LE(since, 6) << "3 in a row on average, twice that where ties fall badly";
  }
}

TEST(Iwrr, PeersThatWereNotMeasuredAreEqual) {
  const auto iwrr = router(Wiring::iwrr, {0, 1, 2, 3});
  expect_shares(choose_many(*iwrr, 40), {{0, 10}, {1, 10}, {2, 10}, {3, 10}}, 0);
}

// The first choices are made before any answer is there; they must not weigh as seconds later.
TEST(Iwrr, ChoicesBeforeTheFirstMeasurementDoNotCountAsSeconds) {
  const auto iwrr = router(Wiring::iwrr, {0, 1, 2, 3});
  for (const std::int32_t peer : sequence(*iwrr, 6)) iwrr->measured(PeerId(peer), 1e-4);
  expect_shares(run_step(*iwrr, {{0, 1e-4}, {1, 1e-4}, {2, 1e-4}, {3, 1e-4}}, 38),
                {{0, 9}, {1, 9}, {2, 9}, {3, 9}}, 2);
}

TEST(Iwrr, AnswersMayComeLate) {
  const auto iwrr = router(Wiring::iwrr, {0, 1, 2, 3});
  const Seconds taken_s = {{0, 0.02}, {1, 0.02}, {2, 0.08}, {3, 0.02}};
  std::map<std::int32_t, int> chosen;
  std::vector<PeerId> in_flight;
  for (std::int32_t i = 0; i < 1300; ++i) {
    in_flight.push_back(iwrr->choose(microbatch(i)));
    if (i >= 260) ++chosen[in_flight.back().value];
    if (in_flight.size() < 16) continue;
    const PeerId answered = in_flight.front();
    in_flight.erase(in_flight.begin());
    iwrr->measured(answered, taken_s.at(answered.value));
  }
  expect_shares(chosen, {{0, 320}, {1, 320}, {2, 80}, {3, 320}}, 4);
}

TEST(Iwrr, AChangeOfSpeedIsFollowed) {
  const auto iwrr = router(Wiring::iwrr, {0, 1});
  for (int step = 0; step < 20; ++step) run_step(*iwrr, {{0, 1}, {1, 1}}, 40);
  for (int step = 0; step < 3; ++step) run_step(*iwrr, {{0, 1}, {1, 3}}, 40);
  expect_shares(run_step(*iwrr, {{0, 1}, {1, 3}}, 40), {{0, 30}, {1, 10}}, 2);
  for (int step = 0; step < 4; ++step) run_step(*iwrr, {{0, 1}, {1, 1}}, 40);
  expect_shares(run_step(*iwrr, {{0, 1}, {1, 1}}, 40), {{0, 20}, {1, 20}}, 2);
}

TEST(Iwrr, TheNewestAnswerWeighsATenth) {
  const auto iwrr = router(Wiring::iwrr, {0, 1});
  run_step(*iwrr, {{0, 1}, {1, 1}}, 200);
  iwrr->measured(PeerId(0), 21);  // now 3 s are expected
  expect_shares(choose_many(*iwrr, 400), {{0, 100}, {1, 300}}, 2);
}

TEST(Iwrr, TheFirstAnswerWeighsAll) {
  const auto iwrr = router(Wiring::iwrr, {0, 1});
  iwrr->measured(PeerId(0), 3);
  iwrr->measured(PeerId(1), 1);
  expect_shares(choose_many(*iwrr, 400), {{0, 100}, {1, 300}}, 1);
}

TEST(Iwrr, ASingleSlowAnswerIsForgottenSoon) {
  const auto iwrr = router(Wiring::iwrr, {0, 1});
  const Seconds even = {{0, 1}, {1, 1}};
  run_step(*iwrr, even, 100);
  iwrr->measured(PeerId(0), 20);
  expect_shares(run_step(*iwrr, even, 100), {{0, 40}, {1, 60}}, 10);
  expect_shares(run_step(*iwrr, even, 100), {{0, 50}, {1, 50}}, 1);
}

TEST(Iwrr, ANewcomerNeitherFloodsNorStarves) {
  const auto iwrr = router(Wiring::iwrr, {0, 1, 2});
  Seconds taken_s = {{0, 0.1}, {1, 0.1}, {2, 0.1}};
  for (int step = 0; step < 50; ++step) run_step(*iwrr, taken_s, 30);
  iwrr->set_peers(ids({0, 1, 2, 9}), 0);
  taken_s[9] = 0.1;
  expect_shares(run_step(*iwrr, taken_s, 40), {{0, 10}, {1, 10}, {2, 10}, {9, 10}}, 1);
}

// Two senders take turns at two peers. A repair had one of them send one microbatch more.
TEST(Iwrr, SendersThatFellIntoStepAreOutOfItInTheNextStep) {
  std::vector<std::unique_ptr<Router>> senders;
  for (const std::size_t sender : {0, 1}) {
    senders.push_back(make_router(SwarmConfig{}, PeerId(10), kStage));
    senders.back()->set_peers(ids({0, 1}), sender);
  }
  const auto choose = [&](std::size_t sender) {
    const PeerId chosen = senders[sender]->choose(microbatch(0));
    senders[sender]->measured(chosen, chosen == PeerId(0) ? 0.1 : 0.1005);
    return chosen;
  };
  for (int i = 0; i < 5; ++i) choose(0);
  for (int i = 0; i < 4; ++i) choose(1);
  EXPECT_EQ(choose(0), choose(1)) << "both at once";
  for (const auto& sender : senders) sender->step_over();
  EXPECT_EQ(choose(0), PeerId(0));
  EXPECT_EQ(choose(1), PeerId(1));
}

TEST(Iwrr, APeerThatIsSlowerKeepsItsTurnOverSteps) {
  const auto iwrr = router(Wiring::iwrr, {0, 1, 2, 3});
  const Seconds taken_s = {{0, 0.01}, {1, 0.01}, {2, 0.01}, {3, 0.04}};
  run_step(*iwrr, taken_s, 52);
  std::map<std::int32_t, int> all;
  for (int step = 0; step < 130; ++step) {
    iwrr->step_over();
    for (const auto& [peer, count] : run_step(*iwrr, taken_s, 4)) all[peer] += count;
  }
  expect_shares(all, {{0, 160}, {1, 160}, {2, 160}, {3, 40}}, 2);
}

// A hundred senders have chosen among as many peers in turn. Were a newcomer next for all that have
// not come round, the step would wait for it.
TEST(Iwrr, ANewcomerIsNotTheNextOfAllSenders) {
  constexpr std::int32_t kPeers = 100, kBefore = 40, kAStep = 8;
  for (const double first_s :
       {0.1, 0.01, 1.0}) {  // of the peer that the newcomer would stand before
    std::vector<std::int32_t> peers;
    for (std::int32_t peer = 0; peer < kPeers; ++peer) peers.push_back(peer);
    std::map<std::int32_t, int> chosen;
    const auto choose = [&](Router& router, int count) {
      for (int i = 0; i < count; ++i) {
        const PeerId peer = router.choose(microbatch(i));
        router.measured(peer, peer == PeerId(0) ? first_s : 0.1);
        ++chosen[peer.value];
      }
    };
    std::vector<std::unique_ptr<Router>> routers;
    for (std::int32_t sender = 0; sender < kPeers; ++sender) {
      routers.push_back(make_router(SwarmConfig{}, PeerId(1000 + sender), kStage));
      routers.back()->set_peers(ids(peers), static_cast<std::size_t>(sender));
      choose(*routers.back(), kBefore);
    }
    peers.push_back(kPeers);
    chosen.clear();
    for (std::int32_t sender = 0; sender < kPeers; ++sender) {
      Router& router = *routers[static_cast<std::size_t>(sender)];
      router.set_peers(ids(peers), static_cast<std::size_t>(sender));
      choose(router, kAStep);
    }
    EXPECT_GE(chosen[kPeers], 1) << first_s;
    EXPECT_LE(chosen[kPeers], 2 * kAStep) << first_s;
  }
}

// While its first answers are on their way, its time is estimated from the others'.
TEST(Iwrr, ANewcomerCountsAsAnAveragePeerUntilItIsMeasured) {
  const auto iwrr = router(Wiring::iwrr, {0, 1});
  for (int step = 0; step < 10; ++step) run_step(*iwrr, {{0, 0.1}, {1, 0.3}}, 40);
  iwrr->set_peers(ids({0, 1, 2}), 0);
  std::map<std::int32_t, int> chosen = choose_many(*iwrr, 110);
  // In t seconds they get t / 0.1, t / 0.3 and t / 0.2 microbatches.
  expect_shares(chosen, {{0, 60}, {1, 20}, {2, 30}}, 2);
}

TEST(Iwrr, APeerThatStaysKeepsItsAverageAndOneThatLeavesIsNotChosen) {
  const auto iwrr = router(Wiring::iwrr, {0, 1, 2, 3});
  const Seconds taken_s = {{0, 1}, {1, 1}, {2, 1}, {3, 4}};
  run_step(*iwrr, taken_s, 52);
  iwrr->set_peers(ids({3, 0}), 0);
  iwrr->measured(PeerId(2), 1);  // late
  expect_shares(choose_many(*iwrr, 50), {{0, 40}, {3, 10}}, 3);
}

TEST(Iwrr, WhenAllAreReplacedTheirSuccessorsAreEqual) {
  const auto iwrr = router(Wiring::iwrr, {0, 1});
  run_step(*iwrr, {{0, 1e-3}, {1, 1e-3}}, 20);
  iwrr->set_peers({}, 0);
  iwrr->set_peers(ids({2, 3}), 0);
  expect_shares(choose_many(*iwrr, 7), {{2, 3}, {3, 4}}, 1);
  for (int step = 0; step < 2; ++step) run_step(*iwrr, {{2, 1e-3}, {3, 1e-3}}, 20);
  expect_shares(run_step(*iwrr, {{2, 1e-3}, {3, 1e-3}}, 20), {{2, 10}, {3, 10}}, 1);
}

TEST(Iwrr, APeerThatTakesNoTimeDoesNotGetEverything) {
  const auto iwrr = router(Wiring::iwrr, {0, 1});
  expect_shares(run_step(*iwrr, {{0, 0}, {1, 0}}, 100), {{0, 50}, {1, 50}}, 1);
}

// The router of the sender at this place, with peers 0 to 3 to choose from.
std::unique_ptr<Router> rotated_router(std::size_t sender) {
  auto made = make_router(SwarmConfig{}, PeerId(100), kStage);
  made->set_peers(ids({0, 1, 2, 3}), sender);
  return made;
}

TEST(RotatedTies, EachSenderBeginsWithAnotherPeer) {
  EXPECT_EQ(sequence(*rotated_router(0), 5), (std::vector<std::int32_t>{0, 1, 2, 3, 0}));
  EXPECT_EQ(sequence(*rotated_router(3), 5), (std::vector<std::int32_t>{3, 0, 1, 2, 3}));
  EXPECT_EQ(sequence(*rotated_router(5), 5), (std::vector<std::int32_t>{1, 2, 3, 0, 1}));
}

TEST(RotatedTies, TimesThatDifferInTheirLastBitsAreTied) {
  const auto iwrr = rotated_router(2);
  const Seconds taken_s = {{0, 0.1}, {1, 0.1 - 1e-12}, {2, 0.1 + 1e-12}, {3, 0.1 - 2e-12}};
  for (int round = 0; round < 100; ++round) {
    for (const std::int32_t expected : {2, 3, 0, 1}) {
      const PeerId chosen = iwrr->choose(microbatch(0));
      ASSERT_EQ(chosen, PeerId(expected));
      iwrr->measured(chosen, taken_s.at(expected));
    }
  }
}

// A tie is no share: what a peer is faster counts in the end.
TEST(RotatedTies, APeerHalfAPercentFasterGetsItsDue) {
  const auto iwrr = rotated_router(0);
  const Seconds taken_s = {{0, 0.1}, {1, 0.1}, {2, 0.1}, {3, 0.0995}};
  std::map<std::int32_t, int> all;
  for (int step = 0; step < 100; ++step) {
    for (const auto& [peer, count] : run_step(*iwrr, taken_s, 200)) all[peer] += count;
  }
  expect_shares(all, {{0, 4994}, {1, 4994}, {2, 4994}, {3, 5019}}, 3);
}

TEST(RotatedTies, TheOrderIsThatOfThePeersThatAreLeft) {
  const auto iwrr = rotated_router(1);
  iwrr->set_peers(ids({1, 3, 7}), 1);
  EXPECT_EQ(sequence(*iwrr, 4), (std::vector<std::int32_t>{3, 7, 1, 3}));
}

TEST(Uniform, ChoicesPassAChiSquareTest) {
  const auto uniform = router(Wiring::uniform, {0, 1, 2, 3, 4, 5, 6, 7});
  const int count = 80000;
  const double expected = count / 8.0;
  double chi_square = 0;
  const auto chosen = choose_many(*uniform, count);
  ASSERT_EQ(chosen.size(), 8u);
  for (const auto& [peer, times] : chosen) {
    chi_square += (times - expected) * (times - expected) / expected;
  }
  EXPECT_LT(chi_square, 24.3) << "7 degrees of freedom: more in one of 1000 experiments";
}

TEST(Uniform, SuccessiveChoicesAreIndependent) {
  const auto uniform = router(Wiring::uniform, {0, 1});
  const auto chosen = sequence(*uniform, 40000);
  int repeated = 0;
  for (std::size_t i = 1; i < chosen.size(); ++i) repeated += chosen[i] == chosen[i - 1] ? 1 : 0;
  EXPECT_NEAR(repeated, 20000, 400);
}

TEST(RoundRobin, EveryPeerInTurn) {
  const auto round_robin = router(Wiring::round_robin, {4, 1, 6});
  const auto chosen = sequence(*round_robin, 9);
  for (std::size_t i = 3; i < chosen.size(); ++i) EXPECT_EQ(chosen[i], chosen[i - 3]);
  EXPECT_EQ(std::set<std::int32_t>(chosen.begin(), chosen.end()),
            (std::set<std::int32_t>{1, 4, 6}));
}

TEST(RoundRobin, TheStartIsDrawn) {
  std::set<std::int32_t> starts;
  for (std::int32_t self = 0; self < 40; ++self) {
    starts.insert(router(Wiring::round_robin, {0, 1, 2}, kSeed, self)->choose(microbatch(0)).value);
  }
  EXPECT_EQ(starts.size(), 3u);
}

TEST(RoundRobin, ContinuesBehindTheLastChoiceWhenPeersChange) {
  const auto round_robin = router(Wiring::round_robin, {0, 1, 2, 3});
  while (round_robin->choose(microbatch(0)) != PeerId(1)) {
  }
  round_robin->set_peers(ids({0, 3, 5}), 0);
  EXPECT_EQ(sequence(*round_robin, 4), (std::vector<std::int32_t>{3, 5, 0, 3}));
}

TEST(Fixed, DependsOnTheMicrobatchAlone) {
  const auto one = router(Wiring::fixed, {5, 2, 9}, 1, 0, StageId(0));
  const auto other = router(Wiring::fixed, {2, 9, 5}, 2, 8, StageId(6));
  sequence(*other, 5);
  for (std::int32_t i = 0; i < 20; ++i) {
    const PeerId chosen = one->choose(microbatch(i));
    EXPECT_EQ(chosen, other->choose({Step(17), Purpose::train, i}));
    EXPECT_EQ(chosen, ids({2, 5, 9})[static_cast<std::size_t>(i % 3)]);
  }
}

class AnyWiring : public testing::TestWithParam<Wiring> {};

INSTANTIATE_TEST_SUITE_P(Policies, AnyWiring,
                         testing::Values(Wiring::iwrr, Wiring::uniform, Wiring::round_robin,
                                         Wiring::fixed));

TEST_P(AnyWiring, EqualSeedsMakeEqualChoices) {
  const auto one = router(GetParam(), {0, 1, 2, 3, 4});
  const auto other = router(GetParam(), {3, 4, 0, 2, 1});
  EXPECT_EQ(sequence(*one, 200), sequence(*other, 200));
}

TEST_P(AnyWiring, TheSamePeersAgainChangeNothing) {
  const auto one = router(GetParam(), {0, 1, 2, 3, 4});
  const auto other = router(GetParam(), {0, 1, 2, 3, 4});
  for (int i = 0; i < 50; ++i) {
    other->set_peers(ids({4, 3, 2, 1, 0}), 0);
    ASSERT_EQ(sequence(*one, 3), sequence(*other, 3));
  }
}

TEST_P(AnyWiring, OnePeerGetsEverything) {
  const auto only = router(GetParam(), {6});
  only->measured(PeerId(6), 2);
  EXPECT_EQ(choose_many(*only, 30), (std::map<std::int32_t, int>{{6, 30}}));
}

class RandomWiring : public AnyWiring {};

INSTANTIATE_TEST_SUITE_P(Policies, RandomWiring, testing::Values(Wiring::iwrr, Wiring::uniform));

TEST_P(RandomWiring, SeedPeerAndStageMakeChoicesDiffer) {
  const std::vector<std::int32_t> peers = {0, 1, 2, 3, 4};
  const auto chosen = sequence(*router(GetParam(), peers), 30);
  EXPECT_NE(chosen, sequence(*router(GetParam(), peers, kSeed + 1), 30));
  EXPECT_NE(chosen, sequence(*router(GetParam(), peers, kSeed, 101), 30));
  EXPECT_NE(chosen, sequence(*router(GetParam(), peers, kSeed, 100, StageId(4)), 30));
}

TEST(PipelineRouter, AMicrobatchStaysInItsPipelineUntilAllGoBack) {
  SwarmConfig swarm;
  swarm.method = Method::gpipe;
  const auto next = make_router(swarm, PeerId(100), kStage);
  next->set_peers(ids({1, 4, 7}), 0);
  EXPECT_EQ(sequence(*next, 4), (std::vector<std::int32_t>{1, 4, 7, 1}));
  next->set_peers(ids({1, 7}), 0);  // peer 4 has died
  EXPECT_EQ(sequence(*next, 4), (std::vector<std::int32_t>{1, 4, 7, 1}));
  next->go_back();
  next->set_peers(ids({1, 7}), 0);
  EXPECT_EQ(sequence(*next, 3), (std::vector<std::int32_t>{1, 7, 1}));
}

}  // namespace
}  // namespace swarmpi::router_test
