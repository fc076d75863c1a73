// How leadership passes on, seen by one peer.

#include <gtest/gtest.h>

#include <memory>

#include "protocol/fake_world_test.hpp"

namespace swarmpi {
namespace {

using testing::tiny_plan;

const InitialMembership kRoster{{PeerId(0), PeerId(1), PeerId(2)}, {PeerId(3)}, Term(1)};

std::unique_ptr<Peer> peer(std::int32_t id) {
  RunPlan plan = tiny_plan(1, 2);
  plan.recovers = true;
  return std::make_unique<Peer>(PeerId(id), plan, kRoster, ResumeState{});
}

template <class Wanted>
std::vector<Wanted> all_of(const Actions& actions) {
  std::vector<Wanted> found;
  for (const Action& action : actions) {
    if (const auto* wanted = std::get_if<Wanted>(&action)) found.push_back(*wanted);
  }
  return found;
}

template <class Body>
std::vector<std::pair<PeerId, Body>> sent(const Actions& actions) {
  std::vector<std::pair<PeerId, Body>> found;
  for (const Send& send : all_of<Send>(actions)) {
    if (const auto* body = std::get_if<Body>(&send.message.body))
      found.emplace_back(send.to, *body);
  }
  return found;
}

Actions hears(Peer& peer, std::int32_t from, MessageBody body, ViewNumber view = {Term(1), 1}) {
  return peer.handle(MessageArrived{PeerId(from), {Incarnation(), view, std::move(body)}}, 1);
}

View first_view() {
  View view;
  view.number = {Term(1), 1};
  for (const std::int32_t id : {0, 1, 2}) view.members[PeerId(id)] = {StageId(0)};
  view.members[PeerId(3)];
  return view;
}

TEST(Succession, TheNextInLineTakesATermThatNobodyHas) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  const auto asked = all_of<CreateTerm>(next->handle(PeerLost{PeerId(0)}, 1));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].term, Term(1));
  const auto again = all_of<CreateTerm>(next->handle(TermCreated{Term(1), false}, 1));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].term, Term(2));
  EXPECT_EQ(sent<InquiryMessage>(next->handle(TermCreated{Term(2), true}, 1)).size(), 2u);
}

TEST(Succession, WhoIsNotNextTellsTheNextOfTheDeath) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  const auto told = sent<LostMessage>(other->handle(PeerLost{PeerId(0)}, 1));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, PeerId(1));
  EXPECT_EQ(told[0].second.peer, PeerId(0));
}

// Somebody may have heard of a change that the dead leader had time to tell but one.
TEST(Succession, TheNewLeaderGoesOnFromTheNewestView) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{first_view(), nullptr});
  next->handle(PeerLost{PeerId(0)}, 1);
  next->handle(TermCreated{Term(2), true}, 1);
  View newer = first_view();
  newer.number.number = 2;
  newer.members[PeerId(3)] = {StageId(0)};
  hears(*next, 2, InquiryAnswer{Term(2), first_view(), nullptr});
  const auto views = sent<ViewMessage>(hears(*next, 3, InquiryAnswer{Term(2), newer, nullptr}));
  ASSERT_EQ(views.size(), 3u);
  const View& view = views[0].second.view;
  EXPECT_EQ(view.number, (ViewNumber{Term(2), 1}));
  EXPECT_FALSE(view.members.contains(PeerId(0)));
  EXPECT_TRUE(view.serves(PeerId(3), StageId(0)));
}

TEST(Succession, ADeathDuringTheInquiryIsNotWaitedFor) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{first_view(), nullptr});
  next->handle(PeerLost{PeerId(0)}, 1);
  next->handle(TermCreated{Term(2), true}, 1);
  hears(*next, 2, InquiryAnswer{Term(2), first_view(), nullptr});
  EXPECT_EQ(sent<ViewMessage>(next->handle(PeerLost{PeerId(3)}, 2)).size(), 2u);
}

TEST(Succession, WhoHasAnsweredANewLeaderAdoptsNoViewOfAnOldOne) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  hears(*other, 0, ViewMessage{first_view(), nullptr});
  EXPECT_EQ(sent<InquiryAnswer>(hears(*other, 1, InquiryMessage{Term(2)})).size(), 1u);
  View late = first_view();
  late.number.number = 2;
  EXPECT_TRUE(sent<TableMessage>(hears(*other, 0, ViewMessage{late, nullptr})).empty());
  View newer = first_view();
  newer.number = {Term(2), 1};
  newer.members.erase(PeerId(0));
  EXPECT_EQ(sent<TableMessage>(hears(*other, 1, ViewMessage{newer, nullptr})).size(), 1u);
}

TEST(Succession, TheDeadAreNotListenedTo) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  other->handle(PeerLost{PeerId(0)}, 1);
  EXPECT_TRUE(sent<TableMessage>(hears(*other, 0, ViewMessage{first_view(), nullptr})).empty());
}

TEST(Succession, AViewWithoutThisPeerEndsIt) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  View view = first_view();
  view.members.erase(PeerId(2));
  hears(*other, 0, ViewMessage{view, nullptr});
  ASSERT_TRUE(other->done());
  EXPECT_EQ(other->status().code(), ExitStatus::stopped);
}

// Whoever dies while the end is announced: the next announces the same end, and leads nobody.
TEST(Succession, AnEndThatSomeHaveHeardIsToldToAll) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{first_view(), nullptr});
  hears(*next, 0, EndMessage{ExitStatus::stopped, "somebody asked"});
  const auto ends = sent<EndMessage>(next->handle(PeerLost{PeerId(0)}, 1));
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].second.why, "somebody asked");
  EXPECT_TRUE(next->done());
}

// The end that somebody has heard may have no mark: the disk was full.
TEST(Succession, ANewLeaderEndsTheRunWhereAnybodyHasHeardOfItsEnd) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{first_view(), nullptr});
  next->handle(PeerLost{PeerId(0)}, 1);
  next->handle(TermCreated{Term(2), true}, 1);
  hears(*next, 2, InquiryAnswer{Term(2), first_view(), nullptr});
  const auto views = sent<ViewMessage>(hears(*next, 3, InquiryAnswer{Term(2), first_view(), {}}));
  ASSERT_EQ(views.size(), 3u);
  const ViewNumber number = views[0].second.view.number;
  const auto tables = sent<TableMessage>(hears(*next, 1, views[0].second, number));
  ASSERT_EQ(tables.size(), 1u);
  hears(*next, 1, tables[0].second, number);
  TableMessage table;
  table.view = number;
  hears(*next, 2, table, number);
  table.end = EndMessage{ExitStatus::stopped, "the disk is full"};
  const auto ends = all_of<StoreEnd>(hears(*next, 3, table, number));
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].why, "the disk is full");
}

// The leader that it missed has let it go.
TEST(Succession, WhoeverFindsThatTheNewestViewIsWithoutItAsksToJoin) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{first_view(), nullptr});
  next->handle(PeerLost{PeerId(0)}, 1);
  next->handle(TermCreated{Term(2), true}, 1);
  View newer = first_view();
  newer.number.number = 2;
  newer.remove(PeerId(1));
  hears(*next, 2, InquiryAnswer{Term(2), newer, nullptr});
  const Actions actions = hears(*next, 3, InquiryAnswer{Term(2), newer, nullptr});
  EXPECT_TRUE(sent<ViewMessage>(actions).empty());
  EXPECT_FALSE(sent<JoinMessage>(actions).empty());
}

// The leader that let it in died, and the next in line had not heard of it.
TEST(Succession, ANewcomerThatWasForgottenMayJoinAgain) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  View view = first_view();
  view.members[PeerId(7)];
  hears(*other, 0, ViewMessage{view, nullptr});
  view.number = {Term(2), 1};
  view.remove(PeerId(0));
  view.remove(PeerId(7));
  hears(*other, 1, ViewMessage{view, nullptr}, view.number);
  EXPECT_TRUE(sent<PongMessage>(hears(*other, 7, PingMessage{1}, view.number)).empty());
  view.number.number = 2;
  view.members[PeerId(7)];
  hears(*other, 1, ViewMessage{view, nullptr}, view.number);
  EXPECT_EQ(sent<PongMessage>(hears(*other, 7, PingMessage{1}, view.number)).size(), 1u);
}

// All others have gone; this one was taken for dead, and has heard nothing.
TEST(Succession, ARunThatHasEndedIsTakenUpByNobody) {
  const auto late = peer(1);
  late->handle(Started{}, 0);
  late->handle(PeerLost{PeerId(0)}, 1);
  late->handle(TermCreated{Term(1), false, EndMessage{ExitStatus::good, ""}}, 1);
  ASSERT_TRUE(late->done());
  EXPECT_TRUE(late->status().ok());
}

// Who created the later term may lead, or may have died over it: the others know.
TEST(Succession, WhoeverFindsItsTermOverAsksWhoLeads) {
  const auto late = peer(0);
  late->handle(Started{}, 0);
  const auto views = sent<ViewMessage>(late->handle(TermCreated{Term(1), true}, 1));
  hears(*late, 0, views[0].second);
  const auto asked = all_of<CreateTerm>(late->handle(TermOver{Term(1), Term(4)}, 2));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].term, Term(5));
  EXPECT_EQ(sent<InquiryMessage>(late->handle(TermCreated{Term(5), true}, 2)).size(), 3u);
}

// Those who had promised to follow another keep silent, until that one has died.
TEST(Succession, AnInquiryIsRepeated) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  next->handle(PeerLost{PeerId(0)}, 1);
  next->handle(TermCreated{Term(2), true}, 1);
  EXPECT_EQ(sent<InquiryMessage>(next->handle(TimerDue{}, 1.2)).size(), 2u);
}

// It was let go by a leader that died before it could say so.
TEST(Succession, WhoeverWasLeftOutAndWantsToLeadHearsOfIt) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  other->handle(PeerLost{PeerId(0)}, 1);
  View view = first_view();
  view.number = {Term(3), 1};
  view.remove(PeerId(0));
  view.remove(PeerId(1));
  hears(*other, 3, ViewMessage{view, nullptr}, view.number);
  const Actions actions = hears(*other, 1, InquiryMessage{Term(2)});
  EXPECT_TRUE(sent<InquiryAnswer>(actions).empty());
  EXPECT_EQ(sent<FencedMessage>(actions).size(), 1u);
}

// Peer 1 joined while the leader died, and peer 2 had not heard of it.
TEST(Succession, ATermThatComesAfterAnothersViewMakesNoLeader) {
  RunPlan plan = tiny_plan(1, 2);
  plan.recovers = true;
  Peer second(PeerId(2), plan, InitialMembership{{PeerId(0), PeerId(2)}, {}, Term(1)},
              ResumeState{});
  second.handle(Started{}, 0);
  second.handle(PeerLost{PeerId(0)}, 1);
  View view;
  view.number = {Term(2), 1};
  view.members[PeerId(1)] = view.members[PeerId(2)] = {StageId(0)};
  hears(second, 1, ViewMessage{view, nullptr}, view.number);
  const Actions actions = second.handle(TermCreated{Term(3), true}, 1);
  EXPECT_TRUE(sent<ViewMessage>(actions).empty());
  EXPECT_TRUE(sent<InquiryMessage>(actions).empty());
}

TEST(Succession, ANewcomerAsksUntilSomebodyLetsItIn) {
  const auto newcomer = peer(7);
  EXPECT_EQ(sent<JoinMessage>(newcomer->handle(Started{}, 0)).size(), 4u);
  EXPECT_EQ(sent<JoinMessage>(newcomer->handle(TimerDue{}, 1)).size(), 4u);
  View view = first_view();
  view.members[PeerId(7)];
  EXPECT_EQ(sent<TableMessage>(hears(*newcomer, 0, ViewMessage{view, nullptr})).size(), 1u);
  EXPECT_TRUE(sent<JoinMessage>(newcomer->handle(TimerDue{}, 2)).empty());

  const auto nobody_answers = peer(8);
  nobody_answers->handle(Started{}, 0);
  for (double now_s = 0.5; now_s < 40; now_s += 0.5) nobody_answers->handle(TimerDue{}, now_s);
  ASSERT_TRUE(nobody_answers->done());
  EXPECT_EQ(nobody_answers->status().code(), ExitStatus::stopped);
}

// The leader that committed step 0 died before its words reached a spare that came late, and who
// leads now remembers step 1 alone.
TEST(Succession, ALearnerToWhomForgottenCommitsWereNotToldLearnsFromThere) {
  const auto spare = peer(3);
  spare->handle(Started{}, 0);
  spare->handle(PeerLost{PeerId(0)}, 1);
  View view = first_view();
  view.number = {Term(2), 1};
  view.remove(PeerId(0));
  view.learners[PeerId(3)] = {StageId(0)};
  const auto room_of = [](const Actions& actions) {
    const auto jobs = all_of<StartJob>(actions);
    return jobs.size() == 1 ? std::get<PrepareJob>(jobs[0].job).step : Step(-2);
  };
  EXPECT_EQ(room_of(hears(*spare, 1, ViewMessage{view, nullptr}, view.number)), Step(-1));
  auto second = std::make_shared<CommitRecord>();
  second->step = Step(1);
  hears(*spare, 1, CommitMessage{second, Step(0), Step(-1)}, view.number);
  // Room for a state of before is of no use.
  EXPECT_EQ(room_of(spare->handle(JobFinished{PrepareResult{StageId(0)}, 0}, 1)), Step(1));
  const Actions actions = spare->handle(JobFinished{PrepareResult{StageId(0)}, 0}, 1);
  const auto fetches = sent<FetchMessage>(actions);
  ASSERT_FALSE(fetches.empty());
  EXPECT_EQ(fetches[0].second.at_least, Step(1));
}

// Else a new leader would ask it for the newest view, and wait in vain.
TEST(Succession, AGoodbyeIsHeardBeforeTheViewThatItWasSaidIn) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 3, LostMessage{PeerId(3), true}, {Term(1), 2});
  next->handle(PeerLost{PeerId(0)}, 1);
  const auto asked = sent<InquiryMessage>(next->handle(TermCreated{Term(2), true}, 1));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].first, PeerId(2));
}

// What the next leader writes down of the one before, when all have answered it.
std::string written_of_the_last_leader(Peer& next, Actions heard) {
  if (all_of<CreateTerm>(heard).empty()) return "nothing";
  next.handle(TermCreated{Term(2), true}, 1);
  hears(next, 2, InquiryAnswer{Term(2), first_view(), nullptr});
  for (const StoreRecord& record :
       all_of<StoreRecord>(hears(next, 3, InquiryAnswer{Term(2), first_view(), nullptr}))) {
    const auto* row = std::get_if<EventRow>(&record.row);
    if (row != nullptr && row->peer == 0) return row->kind;
  }
  return "nothing";
}

TEST(Succession, ALeaderThatSaidGoodbyeIsNotCountedAsKilled) {
  const auto next = peer(1);
  hears(*next, 0, ViewMessage{first_view(), nullptr});
  EXPECT_EQ(written_of_the_last_leader(*next, hears(*next, 0, LostMessage{PeerId(0), true})),
            "leave");
}

// Messages of two senders come in any order.
TEST(Succession, AnotherMayTellFirstThatTheLeaderHasLeft) {
  const auto other = peer(2);
  hears(*other, 0, ViewMessage{first_view(), nullptr});
  const auto told = sent<LostMessage>(hears(*other, 0, LostMessage{PeerId(0), true}));
  ASSERT_EQ(told.size(), 1u);
  const auto next = peer(1);
  hears(*next, 0, ViewMessage{first_view(), nullptr});
  EXPECT_EQ(written_of_the_last_leader(*next, hears(*next, 2, told[0].second)), "leave");
}

TEST(Succession, AGoodbyeCountsAlsoAfterTheEndOfItsProcess) {
  const auto next = peer(1);
  hears(*next, 0, ViewMessage{first_view(), nullptr});
  const Actions heard = next->handle(PeerLost{PeerId(0)}, 1);
  hears(*next, 0, LostMessage{PeerId(0), true});
  EXPECT_EQ(written_of_the_last_leader(*next, heard), "leave");
}

// It lives, but the others have gone on: that is a loss to them.
TEST(Succession, ALeaderThatGoesBecauseNobodyKnowsItIsCountedAsKilled) {
  const auto leader = peer(0);
  leader->handle(Started{}, 0);
  leader->handle(TermCreated{Term(1), true}, 0);
  const auto goodbyes = sent<LostMessage>(hears(*leader, 1, FencedMessage{}));
  ASSERT_FALSE(goodbyes.empty());
  const auto next = peer(1);
  hears(*next, 0, ViewMessage{first_view(), nullptr});
  const Actions heard = next->handle(PeerLost{PeerId(0)}, 1);
  hears(*next, 0, goodbyes[0].second);
  EXPECT_EQ(written_of_the_last_leader(*next, heard), "kill");
}

TEST(Succession, ALeaderThatSaidNothingWasKilled) {
  const auto next = peer(1);
  hears(*next, 0, ViewMessage{first_view(), nullptr});
  EXPECT_EQ(written_of_the_last_leader(*next, next->handle(PeerLost{PeerId(0)}, 1)), "kill");
}

}  // namespace
}  // namespace swarmpi
