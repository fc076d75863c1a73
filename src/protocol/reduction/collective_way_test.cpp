// The collective of a stage's replicas, as each of them and the leader see it: message by message.

#include "protocol/reduction/collective_way.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/collective_port.hpp"
#include "protocol/messages/collectives.hpp"
#include "protocol/messages/message.hpp"

namespace swarmpi::collective_way_test {
namespace {

const StageId kStage(1);

// What was done since the last look, all actions of one kind.
template <class Kind>
std::vector<Kind> taken(const Actions& actions) {
  std::vector<Kind> found;
  for (const Action& action : actions) {
    if constexpr (std::is_constructible_v<MessageBody, Kind>) {
      const auto* send = get_if<Send>(&action);
      const auto* body = send == nullptr ? nullptr : get_if<Kind>(&send->message.body);
      if (body != nullptr) found.push_back(*body);
    } else if (const auto* kind = get_if<Kind>(&action)) {
      found.push_back(*kind);
    }
  }
  return found;
}

// Peers 2, 3 and 5 serve stage 1; peer 0 leads.
View view_of_three() {
  View view;
  view.number = {Term(4), 7};
  view.add(PeerId(0));
  for (const std::int32_t id : {2, 3, 5}) view.serve(PeerId(id), kStage);
  return view;
}

// Peer 3 of these.
struct Replica {
  Replica() { outbox.take(); }
  Replica& is_ready() {
    way.receive(CollectiveIdMessage{kStage, view.number, "id"}, outbox);
    way.receive(CollectiveReady{kStage, view.number}, outbox);
    outbox.take();
    return *this;
  }
  Replica& has_frozen(std::int64_t seal = 1) {
    way.consider(sums(seal), true, outbox);
    outbox.take();
    return *this;
  }
  Replica& has_entered() {
    way.receive(EnterMessage{kStage, sums().seal}, outbox);
    outbox.take();
    return *this;
  }
  SumsForCollective sums(std::int64_t seal = 1) const {
    return {view.number, Step(seal), {Incarnation(0), Term(4), seal}, 0};
  }
  CollectiveDone done(std::int64_t seal = 1) const {
    return {kStage, view.number, sums(seal).seal, {}};
  }
  CollectiveFailed failed() const { return {kStage, view.number, "a deadline"}; }
  // What it tells the leader when it looks at its sums.
  std::vector<CollectiveWord> says(std::int64_t seal = 1, bool is_next = true) {
    way.consider(sums(seal), is_next, outbox);
    return taken<CollectiveWord>(outbox.take());
  }

  Outbox outbox;
  View view = view_of_three();
  CollectiveWay way{PeerId(3), kStage, view, outbox};
};

TEST(CollectiveWay, TheFirstReplicaMakesTheIdAndTheOthersGetIt) {
  Outbox outbox;
  const View view = view_of_three();
  CollectiveWay first(PeerId(2), kStage, view, outbox);
  EXPECT_EQ(taken<MakeCollectiveId>(outbox.take()).size(), 1u);
  first.receive(CollectiveIdMade{kStage, view.number, "id"}, outbox);
  const Actions actions = outbox.take();
  EXPECT_EQ(taken<CollectiveIdMessage>(actions).size(), 2u);
  ASSERT_EQ(taken<MakeCollective>(actions).size(), 1u);
  EXPECT_EQ(taken<MakeCollective>(actions)[0].place, 0);
  first.receive(CollectiveIdMade{kStage, view.number, "another"}, outbox);
  EXPECT_TRUE(outbox.take().empty()) << "there is one id for a view";

  Replica other;
  other.way.receive(CollectiveIdMessage{kStage, {Term(4), 6}, "old"}, other.outbox);
  EXPECT_TRUE(other.outbox.take().empty()) << "of a view that has gone";
  other.way.receive(CollectiveIdMessage{kStage, view.number, "id"}, other.outbox);
  const auto made = taken<MakeCollective>(other.outbox.take());
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].id, "id");
  EXPECT_EQ(made[0].place, 1);
  EXPECT_EQ(made[0].members, 3);
}

TEST(CollectiveWay, SaysOnceThatItIsReadyAndOnceThatSumsAreFrozen) {
  Replica replica;
  EXPECT_TRUE(replica.says().empty()) << "no seal can have named it yet";
  replica.way.receive(CollectiveIdMessage{kStage, replica.view.number, "id"}, replica.outbox);
  for (int times = 0; times < 2; ++times) {
    replica.way.receive(CollectiveReady{kStage, replica.view.number}, replica.outbox);
  }
  EXPECT_EQ(taken<CollectiveWord>(replica.outbox.take()).size(), 1u);
  EXPECT_TRUE(replica.says(1, false).empty()) << "sums before them are still taken from `out`";
  const auto words = replica.says();
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0].news, CollectiveNews::frozen);
  EXPECT_EQ(words[0].seal, replica.sums().seal);
  EXPECT_TRUE(replica.says().empty());
}

TEST(CollectiveWay, EntersOnceWithATicketOfSealAndAttempt) {
  Replica replica;
  replica.is_ready();
  replica.way.receive(EnterMessage{kStage, replica.sums().seal}, replica.outbox);
  EXPECT_TRUE(replica.outbox.take().empty()) << "its sums are not frozen";
  replica.has_frozen();
  replica.way.receive(EnterMessage{kStage, replica.sums(2).seal}, replica.outbox);
  EXPECT_TRUE(replica.outbox.take().empty()) << "under another seal";
  std::vector<EnterCollective> entered;
  for (int times = 0; times < 2; ++times) {
    replica.way.receive(EnterMessage{kStage, replica.sums().seal}, replica.outbox);
    for (const auto& enter : taken<EnterCollective>(replica.outbox.take())) {
      entered.push_back(enter);
    }
  }
  ASSERT_EQ(entered.size(), 1u);
  EXPECT_NE(entered[0].ticket, 0u);
  EXPECT_EQ(entered[0].step, Step(1));
}

TEST(CollectiveWay, AResultCountsOnceAndOnlyOfWhatWasEntered) {
  Replica replica;
  replica.is_ready().has_frozen();
  EXPECT_FALSE(replica.way.counts(replica.done())) << "it has not entered";
  replica.has_entered();
  EXPECT_FALSE(replica.way.counts(replica.done(2)));
  EXPECT_TRUE(replica.way.counts(replica.done()));
  EXPECT_FALSE(replica.way.counts(replica.done()));
  EXPECT_TRUE(replica.says().empty()) << "it was told of these sums";
  ASSERT_EQ(replica.says(2).size(), 1u) << "the same collective adds up the next";
}

TEST(CollectiveWay, SuccessAfterAnAbortDoesNotCount) {
  Replica replica;
  replica.is_ready().has_frozen().has_entered();
  replica.way.seal_is_void(Step(1), replica.outbox);
  EXPECT_EQ(taken<AbortCollective>(replica.outbox.take()).size(), 1u);
  EXPECT_FALSE(replica.way.counts(replica.done()));
  EXPECT_FALSE(replica.way.lives(replica.view.number)) << "nothing is taken from its `out`";
  replica.way.receive(CollectiveReady{kStage, replica.view.number}, replica.outbox);
  EXPECT_TRUE(replica.outbox.take().empty()) << "in this view there is no other";
}

TEST(CollectiveWay, ASealOfAnotherStepDoesNotEndIt) {
  Replica replica;
  replica.is_ready().has_frozen().has_entered();
  replica.way.seal_is_void(Step(2), replica.outbox);
  EXPECT_TRUE(replica.outbox.take().empty());
  EXPECT_TRUE(replica.way.counts(replica.done()));
}

TEST(CollectiveWay, TheLeaderHearsOnceForEachSealThatItIsOver) {
  Replica replica;
  replica.is_ready().has_frozen().has_entered();
  replica.way.receive(replica.failed(), replica.outbox);
  EXPECT_EQ(taken<CollectiveWord>(replica.outbox.take()).size(), 1u) << "no seal is to name it";
  const auto words = replica.says();
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0].news, CollectiveNews::over);
  EXPECT_EQ(words[0].seal, replica.sums().seal);
  EXPECT_EQ(words[0].why, "a deadline");
  EXPECT_TRUE(replica.says().empty());
  EXPECT_EQ(replica.says(2).size(), 1u) << "this seal was on its way";
  EXPECT_FALSE(replica.way.counts(replica.done()));
}

TEST(CollectiveWay, AfterADeathItIsAbortedAndTheNextViewTellsTheLeader) {
  Replica replica;
  replica.is_ready().has_frozen().has_entered();
  replica.way.lost(PeerId(0), replica.outbox);
  EXPECT_TRUE(replica.outbox.take().empty()) << "not a member";
  replica.way.lost(PeerId(5), replica.outbox);
  EXPECT_EQ(taken<AbortCollective>(replica.outbox.take()).size(), 1u);
  EXPECT_TRUE(replica.says().empty());
  EXPECT_FALSE(replica.way.counts(replica.done()));
}

TEST(CollectiveWay, OfASealOfAnotherViewNothingIsSaid) {
  Replica replica;
  replica.is_ready();
  SumsForCollective sums = replica.sums();
  sums.view = {Term(4), 6};
  replica.way.consider(sums, true, replica.outbox);
  EXPECT_TRUE(replica.outbox.take().empty());
  EXPECT_FALSE(replica.way.lives(sums.view));
}

struct Ballot {
  Ballot() { ballot.begin({Term(4), 7}); }
  bool hears(std::int32_t from, CollectiveNews news, std::int64_t view = 7) {
    return ballot.enter({{Term(4), view}, kStage, news, Step(1), kSeal, ""}, PeerId(from));
  }
  bool ready() const { return ballot.all_ready(kStage, kReplicas); }
  bool frozen() const { return ballot.all_frozen(kSeal, kReplicas); }

  static constexpr SealId kSeal{Incarnation(0), Term(4), 1};
  inline static const std::vector<PeerId> kReplicas{PeerId(2), PeerId(3), PeerId(5)};
  CollectiveBallot ballot;
};

TEST(CollectiveBallot, AllAreReadyInThisViewOrNobodyIs) {
  Ballot ballot;
  for (const std::int32_t peer : {2, 3}) EXPECT_TRUE(ballot.hears(peer, CollectiveNews::ready));
  EXPECT_FALSE(ballot.hears(5, CollectiveNews::ready, 6)) << "of the view before";
  EXPECT_FALSE(ballot.ready());
  EXPECT_TRUE(ballot.hears(5, CollectiveNews::ready));
  EXPECT_TRUE(ballot.ready());
  EXPECT_FALSE(ballot.ballot.all_ready(StageId(0), Ballot::kReplicas));
  EXPECT_FALSE(ballot.ballot.all_ready(kStage, {PeerId(2)})) << "it is alone";
  ballot.ballot.begin({Term(4), 8});
  EXPECT_FALSE(ballot.ready());
}

TEST(CollectiveBallot, WhatIsOverForOneIsOverForAllUntilTheNextView) {
  Ballot ballot;
  for (const std::int32_t peer : {2, 3, 5}) ballot.hears(peer, CollectiveNews::ready);
  ballot.hears(3, CollectiveNews::over);
  EXPECT_FALSE(ballot.ready());
  ballot.hears(3, CollectiveNews::ready);
  EXPECT_FALSE(ballot.ready());
}

TEST(CollectiveBallot, TheyEnterWhenAllHaveFrozenForTheSameSeal) {
  Ballot ballot;
  EXPECT_FALSE(ballot.frozen());
  for (const std::int32_t peer : {2, 3, 3}) ballot.hears(peer, CollectiveNews::frozen);
  EXPECT_FALSE(ballot.frozen());
  ballot.hears(5, CollectiveNews::frozen);
  EXPECT_TRUE(ballot.frozen());
}

}  // namespace
}  // namespace swarmpi::collective_way_test
