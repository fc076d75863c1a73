// How the next leader takes over, seen by one peer.

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "protocol/membership/initial_membership.hpp"
#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/process_port.hpp"
#include "protocol/messages/progress_port.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/stalls.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/term_port.hpp"
#include "protocol/messages/transport_port.hpp"
#include "protocol/messages/views.hpp"
#include "protocol/peer.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/restart_point.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::succession_test {
namespace {

using testing::tiny_plan;

const InitialMembership kMembership{{PeerId(0), PeerId(1), PeerId(2)}, {PeerId(3)}, Term(1)};

std::unique_ptr<Peer> peer(std::int32_t id) {
  RunPlan plan = tiny_plan(1, 2);
  plan.recovers = true;
  return std::make_unique<Peer>(PeerId(id), plan, kMembership, ResumeState{});
}

template <class Wanted>
std::vector<Wanted> all_of(const Actions& actions) {
  std::vector<Wanted> found;
  for (const Action& action : actions) {
    if (const auto* wanted = get_if<Wanted>(&action)) found.push_back(*wanted);
  }
  return found;
}

template <class Body>
std::vector<std::pair<PeerId, Body>> sent(const Actions& actions) {
  std::vector<std::pair<PeerId, Body>> found;
  for (const Send& send : all_of<Send>(actions)) {
    if (const auto* body = get_if<Body>(&send.message.body)) found.emplace_back(send.to, *body);
  }
  return found;
}

Actions hears(Peer& peer, std::int32_t from, MessageBody body, ViewNumber view = {Term(1), 1}) {
  return peer.handle(MessageArrived{PeerId(from), {Incarnation(), view, std::move(body)}}, 1);
}

View first_view() {
  View view;
  view.number = {Term(1), 1};
  for (const std::int32_t id : {0, 1, 2}) view.serve(PeerId(id), StageId(0));
  view.add(PeerId(3));
  return view;
}

// Peer 1, which has a term after the death of peer 0 and asks the others for their views.
std::unique_ptr<Peer> inquiring() {
  auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  next->handle(PeerLost{PeerId(0)}, 1);
  next->handle(TermCreated{Term(2), true}, 1);
  return next;
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

// Peer 2 has led meanwhile, and is gone: all others have promised it to heed no earlier term.
TEST(Succession, ATermThatComesAfterALaterLeaderIsOfNoUse) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  ASSERT_EQ(all_of<CreateTerm>(next->handle(PeerLost{PeerId(0)}, 1)).size(), 1u);
  View later = first_view();
  later.number = {Term(3), 1};
  later.remove(PeerId(0));
  hears(*next, 2, ViewMessage{share(later), nullptr}, later.number);
  next->handle(PeerLost{PeerId(2)}, 1);
  const Actions actions = next->handle(TermCreated{Term(2), true}, 1);
  EXPECT_TRUE(sent<InquiryMessage>(actions).empty());
  const auto terms = all_of<CreateTerm>(actions);
  ASSERT_EQ(terms.size(), 1u);
  EXPECT_EQ(terms[0].term, Term(4));
}

TEST(Succession, APeerThatIsNotNextTellsTheNextOfTheDeath) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  const auto told = sent<LostMessage>(other->handle(PeerLost{PeerId(0)}, 1));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, PeerId(1));
  EXPECT_EQ(told[0].second.peer, PeerId(0));
}

// The transport tells the leader as well; of what a message has told it may not know.
TEST(Succession, OfADeathThatAllHearOfTheLeaderIsNotTold) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  hears(*other, 0, ViewMessage{share(first_view()), nullptr});
  EXPECT_TRUE(sent<LostMessage>(other->handle(PeerLost{PeerId(3)}, 1)).empty());
  const auto told = sent<LostMessage>(hears(*other, 1, LostMessage{PeerId(1), true, ""}));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, PeerId(0));
}

// The dead leader may have sent its last view to one peer only.
TEST(Succession, TheNewLeaderBeginsWithTheNewestView) {
  const auto next = inquiring();
  View newer = first_view();
  newer.number.number = 2;
  newer.serve(PeerId(3), StageId(0));
  hears(*next, 2, InquiryAnswer{Term(2), share(first_view()), nullptr});
  const auto views =
      sent<ViewMessage>(hears(*next, 3, InquiryAnswer{Term(2), share(newer), nullptr}));
  ASSERT_EQ(views.size(), 3u);
  const View& view = *views[0].second.view;
  EXPECT_EQ(view.number, (ViewNumber{Term(2), 1}));
  EXPECT_FALSE(view.members().contains(PeerId(0)));
  EXPECT_TRUE(view.serves(PeerId(3), StageId(0)));
}

// That all went back to a checkpoint came to others only: they drop what is of the time before.
TEST(Succession, TheNewLeaderSpeaksInTheHistoryThatTheOthersAreIn) {
  const auto next = inquiring();
  View newer = first_view();
  newer.number.number = 2;
  auto restart = std::make_shared<RestartPoint>();
  restart->state.incarnation = 1;
  hears(*next, 2, InquiryAnswer{Term(2), share(first_view()), nullptr});
  std::size_t views = 0;
  for (const Send& send :
       all_of<Send>(hears(*next, 3, InquiryAnswer{Term(2), share(newer), std::move(restart)}))) {
    if (!holds_alternative<ViewMessage>(send.message.body)) continue;
    ++views;
    EXPECT_EQ(send.message.incarnation, Incarnation(1));
  }
  EXPECT_EQ(views, 3u);
}

// The time without a leader is time of the run.
TEST(Succession, TheRunsTimeGoesOnWhileNobodyLeads) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  CommitRecord record;
  record.step = Step(0);
  record.time_s = 50;
  record.next_exponents = {0};
  hears(*next, 0, CommitMessage{std::make_shared<const CommitRecord>(record), Step(-1), Step(-1)});
  next->handle(PeerLost{PeerId(0)}, 3);
  next->handle(PeerLost{PeerId(2)}, 3);
  next->handle(PeerLost{PeerId(3)}, 3);
  double led_s = 0;
  for (const auto& store : all_of<StoreRecord>(next->handle(TermCreated{Term(2), true}, 3))) {
    if (const auto* event = std::get_if<EventRow>(&store.row)) led_s = event->time_s;
  }
  EXPECT_EQ(led_s, 52) << "it had heard after a second that 50 were over, and leads after three";
}

TEST(Succession, ADeathDuringTheInquiryIsNotWaitedFor) {
  const auto next = inquiring();
  hears(*next, 2, InquiryAnswer{Term(2), share(first_view()), nullptr});
  EXPECT_EQ(sent<ViewMessage>(next->handle(PeerLost{PeerId(3)}, 2)).size(), 2u);
}

TEST(Succession, APeerThatHasAnsweredAnInquiryAdoptsNoViewOfAnEarlierTerm) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  hears(*other, 0, ViewMessage{share(first_view()), nullptr});
  EXPECT_EQ(sent<InquiryAnswer>(hears(*other, 1, InquiryMessage{Term(2)})).size(), 1u);
  View late = first_view();
  late.number.number = 2;
  EXPECT_TRUE(sent<TableMessage>(hears(*other, 0, ViewMessage{share(late), nullptr})).empty());
  View newer = first_view();
  newer.number = {Term(2), 1};
  newer.remove(PeerId(0));
  EXPECT_EQ(sent<TableMessage>(hears(*other, 1, ViewMessage{share(newer), nullptr})).size(), 1u);
}

// As it comes over the wire: without the view itself.
ViewMessage change_of(const View& base, const View& next) {
  ViewMessage message;
  message.delta = std::make_shared<const ViewDelta>(delta_between(base, next));
  return message;
}

View next_view(const View& view) {
  View next = view;
  ++next.number.number;
  return next;
}

TEST(Succession, ADeltaOfTheLastViewIsAdopted) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  hears(*other, 0, ViewMessage{share(first_view()), nullptr});
  View next = next_view(first_view());
  next.remove(PeerId(3));
  const auto tables = sent<TableMessage>(hears(*other, 0, change_of(first_view(), next)));
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].second.view, next.number);
}

// What was sent in the view waits: a peer that knows neither lists nor members of it must not act.
TEST(Succession, ADeltaOfAViewThatIsNotHereIsAskedForWhole) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  hears(*other, 0, ViewMessage{share(first_view()), nullptr});
  const View skipped = next_view(first_view());
  View last = next_view(skipped);
  last.remove(PeerId(3));
  const Actions asks = hears(*other, 0, change_of(skipped, last), last.number);
  EXPECT_TRUE(sent<TableMessage>(asks).empty());
  const auto requests = sent<WholeViewRequest>(asks);
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].first, PeerId(0));
  hears(*other, 0, CheckpointMessage{Step(-1), StageId(0)}, last.number);
  const Actions comes = hears(*other, 0, ViewMessage{share(last), nullptr}, last.number);
  EXPECT_EQ(sent<TableMessage>(comes).size(), 1u);
  EXPECT_EQ(all_of<StoreStage>(comes).size(), 1u) << "the order that came before the view";
  EXPECT_TRUE(sent<WholeViewRequest>(hears(*other, 0, change_of(skipped, last))).empty())
      << "it is known";
}

TEST(Succession, ADeltaFromWhichAnotherViewComesOutIsAskedForWhole) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  View base = first_view();
  base.add(PeerId(8));  // of the same number, but not the one that was published
  hears(*other, 0, ViewMessage{share(base), nullptr});
  View next = next_view(first_view());
  next.remove(PeerId(3));
  const Actions actions = hears(*other, 0, change_of(first_view(), next));
  EXPECT_EQ(sent<WholeViewRequest>(actions).size(), 1u);
  EXPECT_TRUE(sent<TableMessage>(actions).empty());
}

// Views 1.2 and 1.3 come while it is promised to peer 1; then peer 1 dies. Of the two, one is held
// back: were 1.3 made from whatever is here, it might lack what 1.2 has changed.
TEST(Succession, APeerThatIsPromisedToAnotherTermAsksForTheWholeView) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  hears(*other, 0, ViewMessage{share(first_view()), nullptr});
  hears(*other, 1, InquiryMessage{Term(2)});
  View second = next_view(first_view());
  second.add(PeerId(4));
  View third = next_view(second);
  third.remove(PeerId(3));
  EXPECT_EQ(sent<WholeViewRequest>(hears(*other, 0, change_of(first_view(), second))).size(), 1u);
  EXPECT_EQ(sent<WholeViewRequest>(hears(*other, 0, change_of(second, third))).size(), 1u);
  EXPECT_TRUE(sent<TableMessage>(hears(*other, 0, ViewMessage{share(third), nullptr})).empty())
      << "it is held back";
  const auto tables = sent<TableMessage>(other->handle(PeerLost{PeerId(1)}, 2));
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].second.view, third.number);
}

TEST(Succession, MessagesOfTheDeadAreRefused) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  other->handle(PeerLost{PeerId(0)}, 1);
  EXPECT_TRUE(
      sent<TableMessage>(hears(*other, 0, ViewMessage{share(first_view()), nullptr})).empty());
}

TEST(Succession, AViewWithoutThisPeerEndsIt) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  View view = first_view();
  view.remove(PeerId(2));
  hears(*other, 0, ViewMessage{share(view), nullptr});
  ASSERT_TRUE(other->done());
  EXPECT_EQ(other->status().code(), ExitStatus::stopped);
}

// The leader dies while it announces the end: the next announces the same end, and does not lead.
TEST(Succession, AnEndThatSomeHaveHeardIsToldToAll) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  hears(*next, 0, EndMessage{ExitStatus::stopped, "somebody asked"});
  const auto ends = sent<EndMessage>(next->handle(PeerLost{PeerId(0)}, 1));
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].second.why, "somebody asked");
  EXPECT_TRUE(next->done());
}

// An end that a peer has heard may have no mark on the disk, because the disk was full.
TEST(Succession, ANewLeaderEndsTheRunIfAnyTableKnowsOfItsEnd) {
  const auto next = inquiring();
  hears(*next, 2, InquiryAnswer{Term(2), share(first_view()), nullptr});
  const auto views =
      sent<ViewMessage>(hears(*next, 3, InquiryAnswer{Term(2), share(first_view()), {}}));
  ASSERT_EQ(views.size(), 3u);
  const ViewNumber number = views[0].second.view->number;
  const auto tables = sent<TableMessage>(hears(*next, 1, views[0].second, number));
  ASSERT_EQ(tables.size(), 1u);
  hears(*next, 1, tables[0].second, number);
  TableMessage table;
  table.view = number;
  hears(*next, 2, table, number);
  const EndMessage end{ExitStatus::stopped, "the disk is full"};
  table.end = std::make_shared<const EndMessage>(end);
  const auto ends = all_of<StoreEnd>(hears(*next, 3, table, number));
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].why, "the disk is full");
}

// A leader that this peer has not heard of has released it.
TEST(Succession, ANewLeaderThatIsNotInTheNewestViewAsksToJoin) {
  const auto next = inquiring();
  View newer = first_view();
  newer.number.number = 2;
  newer.remove(PeerId(1));
  hears(*next, 2, InquiryAnswer{Term(2), share(newer), nullptr});
  const Actions actions = hears(*next, 3, InquiryAnswer{Term(2), share(newer), nullptr});
  EXPECT_TRUE(sent<ViewMessage>(actions).empty());
  EXPECT_FALSE(sent<JoinMessage>(actions).empty());
}

// It was released, but does not know: the dead leader has let others in since.
TEST(Succession, ANewLeaderInquiresOfThoseThatHaveAskedToJoinToo) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  hears(*next, 7, JoinMessage{PeerId(7)});
  hears(*next, 8, JoinMessage{PeerId(8)});
  next->handle(PeerLost{PeerId(8)}, 1);
  for (const std::int32_t id : {0, 2, 3}) next->handle(PeerLost{PeerId(id)}, 1);
  const Actions inquires = next->handle(TermCreated{Term(2), true}, 1);
  ASSERT_EQ(sent<InquiryMessage>(inquires).size(), 1u);
  EXPECT_EQ(sent<InquiryMessage>(inquires)[0].first, PeerId(7));
  EXPECT_TRUE(sent<ViewMessage>(inquires).empty());
  hears(*next, 7, FencedMessage{});
  ASSERT_TRUE(next->done());
  EXPECT_EQ(next->status().code(), ExitStatus::stopped);
}

// It was left out by a leader that had not heard of it, whose id is higher, and has joined again.
TEST(Succession, APeerThatIsLetInByALeaderOfAHigherIdLeads) {
  const auto next = inquiring();
  View without = first_view();
  without.number = {Term(3), 1};
  for (const std::int32_t id : {0, 1}) without.remove(PeerId(id));
  hears(*next, 2, InquiryAnswer{Term(2), share(without), nullptr});
  hears(*next, 3, InquiryAnswer{Term(2), share(without), nullptr});
  View again = without;
  again.number.number = 2;
  again.add(PeerId(1));
  const auto terms = all_of<CreateTerm>(hears(*next, 2, ViewMessage{share(again), nullptr}));
  ASSERT_EQ(terms.size(), 1u) << "all send their tables to it";
  EXPECT_EQ(terms[0].term, Term(4));
}

TEST(Succession, AnyPeerThatOwesAnAnswerToAnInquiryIsKilledIfItIsSilent) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  hears(*next, 7, JoinMessage{PeerId(7)});
  for (const std::int32_t id : {0, 2, 3}) next->handle(PeerLost{PeerId(id)}, 1);
  next->handle(TermCreated{Term(2), true}, 1);
  std::vector<KillPeer> kills;
  for (double now_s = 1; now_s < 5; now_s += 0.1) {
    for (const KillPeer& kill : all_of<KillPeer>(next->handle(TimerDue{}, now_s))) {
      kills.push_back(kill);
    }
  }
  ASSERT_EQ(kills.size(), 1u);
  EXPECT_EQ(kills[0].peer, PeerId(7));
  EXPECT_EQ(sent<ViewMessage>(next->handle(PeerLost{PeerId(7)}, 5)).size(), 1u) << "leads alone";
}

// A member tells it of a death that was not its own, as one tells whoever leads next.
void tells_of_a_death(Peer& newcomer) {
  EXPECT_TRUE(all_of<CreateTerm>(hears(newcomer, 8, LostMessage{PeerId(0), false, ""})).empty())
      << "others that it knows may live, and lead";
  for (const std::int32_t id : {1, 2}) newcomer.handle(PeerLost{PeerId(id)}, 1);
}

// The view that let it in came too late, and all peers of the start have died.
TEST(Succession, ANewcomerThatAMemberTakesForTheLeaderLeads) {
  const auto newcomer = peer(7);
  newcomer->handle(Started{}, 0);
  tells_of_a_death(*newcomer);
  EXPECT_EQ(all_of<CreateTerm>(newcomer->handle(PeerLost{PeerId(3)}, 1)).size(), 1u);
  const auto asked = sent<InquiryMessage>(newcomer->handle(TermCreated{Term(2), true}, 1));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].first, PeerId(8));
  const ViewRef view = share({{Term(1), 5}, {{PeerId(7), {}}, {PeerId(8), {}}}, {}, {}});
  EXPECT_EQ(sent<ViewMessage>(hears(*newcomer, 8, InquiryAnswer{Term(2), view, nullptr})).size(),
            2u);
}

TEST(Succession, TheNewcomerMayHaveHeardOfTheDeathsFirst) {
  const auto newcomer = peer(7);
  newcomer->handle(Started{}, 0);
  for (const std::int32_t id : {0, 1, 2, 3}) newcomer->handle(PeerLost{PeerId(id)}, 1);
  EXPECT_EQ(all_of<CreateTerm>(hears(*newcomer, 8, LostMessage{PeerId(3), false, ""})).size(), 1u);
}

TEST(Succession, ANewcomerWithoutAViewDoesNotLeadIfTheMemberThatToldItHasDied) {
  const auto newcomer = peer(7);
  newcomer->handle(Started{}, 0);
  tells_of_a_death(*newcomer);
  newcomer->handle(PeerLost{PeerId(8)}, 1);
  EXPECT_TRUE(all_of<CreateTerm>(newcomer->handle(PeerLost{PeerId(3)}, 1)).empty());

  const auto another = peer(7);
  another->handle(Started{}, 0);
  tells_of_a_death(*another);
  another->handle(PeerLost{PeerId(3)}, 1);
  another->handle(TermCreated{Term(2), true}, 1);
  const Actions actions = another->handle(PeerLost{PeerId(8)}, 1);
  EXPECT_TRUE(sent<ViewMessage>(actions).empty());
}

// The leader that added it to the view died, and the next one had not heard of it.
TEST(Succession, ANewcomerThatWasForgottenMayJoinAgain) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  View view = first_view();
  view.add(PeerId(7));
  hears(*other, 0, ViewMessage{share(view), nullptr});
  view.number = {Term(2), 1};
  view.remove(PeerId(0));
  view.remove(PeerId(7));
  hears(*other, 1, ViewMessage{share(view), nullptr}, view.number);
  EXPECT_TRUE(sent<HeartbeatMessage>(hears(*other, 7, PingMessage{1}, view.number)).empty());
  view.number.number = 2;
  view.add(PeerId(7));
  hears(*other, 1, ViewMessage{share(view), nullptr}, view.number);
  EXPECT_EQ(sent<HeartbeatMessage>(hears(*other, 7, PingMessage{1}, view.number)).size(), 1u);
}

// All others have finished; this peer was taken for dead, and has not heard the end.
TEST(Succession, ARunThatHasEndedIsLedByNobody) {
  const auto late = peer(1);
  late->handle(Started{}, 0);
  late->handle(PeerLost{PeerId(0)}, 1);
  late->handle(TermCreated{Term(1), false, std::make_shared<const EndMessage>()}, 1);
  ASSERT_TRUE(late->done());
  EXPECT_TRUE(late->status().ok());
}

// The peer that created the later term may lead, or may have died since: the others know.
TEST(Succession, ALeaderWhoseTermIsOverInquiresUnderALaterOne) {
  const auto late = peer(0);
  late->handle(Started{}, 0);
  const auto views = sent<ViewMessage>(late->handle(TermCreated{Term(1), true}, 1));
  hears(*late, 0, views[0].second);
  const auto asked = all_of<CreateTerm>(late->handle(TermOver{Term(1), Term(4)}, 2));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].term, Term(5));
  EXPECT_EQ(sent<InquiryMessage>(late->handle(TermCreated{Term(5), true}, 2)).size(), 3u);
}

// Peer 0, which leads under term 1 in a view that it has adopted.
std::unique_ptr<Peer> leading(bool recovers = true) {
  RunPlan plan = tiny_plan(1, 2);
  plan.recovers = recovers;
  auto leader = std::make_unique<Peer>(PeerId(0), plan, kMembership, ResumeState{});
  leader->handle(Started{}, 0);
  const auto views = sent<ViewMessage>(leader->handle(TermCreated{Term(1), true}, 1));
  hears(*leader, 0, views[0].second);
  return leader;
}

// Storage has refused the rows that it gave it last: only what tables know of them is left.
TEST(Succession, ALeaderAdoptsCommitsWhenItsTermIsOverThoughNobodyHasDied) {
  const auto leader = leading();
  leader->handle(TermOver{Term(1), Term(2)}, 2);
  leader->handle(TermCreated{Term(3), true}, 2);
  Actions actions;
  for (const std::int32_t id : {1, 2, 3}) {
    actions = hears(*leader, id, InquiryAnswer{Term(3), share(first_view()), nullptr});
  }
  const auto views = sent<ViewMessage>(actions);
  ASSERT_EQ(views.size(), 4u);
  const ViewNumber number = views[0].second.view->number;
  const auto own = sent<TableMessage>(hears(*leader, 0, views[0].second, number));
  ASSERT_EQ(own.size(), 1u);
  TableMessage table;
  table.view = number;
  CommitRecord record;
  record.step = Step(0);
  record.next_exponents = {0};
  table.commits = {std::make_shared<const CommitRecord>(record)};
  for (const std::int32_t id : {1, 2, 3}) {
    actions = hears(*leader, id, table, number);
    EXPECT_TRUE(sent<CommitMessage>(actions).empty()) << "not all tables are here";
  }
  actions = hears(*leader, 0, own[0].second, number);
  EXPECT_EQ(sent<CommitMessage>(actions).size(), 4u) << "one of them has not heard it";
}

TEST(Succession, ATermThatIsOverBeforeItIsCreatedIsNotLed) {
  const auto first = peer(0);
  first->handle(Started{}, 0);
  EXPECT_TRUE(all_of<CreateTerm>(first->handle(TermOver{Term(1), Term(4)}, 1)).empty());
  const Actions actions = first->handle(TermCreated{Term(1), true}, 1);
  EXPECT_TRUE(sent<ViewMessage>(actions).empty());
  const auto asked = all_of<CreateTerm>(actions);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].term, Term(5));
}

TEST(Succession, ATermThatIsOverDuringTheInquiryIsNotLed) {
  const auto next = inquiring();
  const auto asked = all_of<CreateTerm>(next->handle(TermOver{Term(2), Term(3)}, 2));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].term, Term(4));
  hears(*next, 2, InquiryAnswer{Term(2), share(first_view()), nullptr});
  const Actions late = hears(*next, 3, InquiryAnswer{Term(2), share(first_view()), nullptr});
  EXPECT_TRUE(sent<ViewMessage>(late).empty());
}

// No other peer creates terms then: the later one is another run's.
TEST(Succession, ARunWithoutRecoveryEndsWhenItsTermIsOver) {
  const auto leader = leading(false);
  const Actions actions = leader->handle(TermOver{Term(1), Term(2)}, 2);
  EXPECT_TRUE(all_of<CreateTerm>(actions).empty());
  ASSERT_TRUE(leader->done());
  EXPECT_EQ(leader->status().code(), ExitStatus::stopped);
  EXPECT_NE(leader->status().message().find("another run has begun"), std::string::npos);
}

// A peer that has promised a later term to another answers only when that one has died.
TEST(Succession, AnInquiryIsRepeated) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  next->handle(PeerLost{PeerId(0)}, 1);
  next->handle(TermCreated{Term(2), true}, 1);
  EXPECT_EQ(sent<InquiryMessage>(next->handle(TimerDue{}, 1.2)).size(), 2u);
}

// The leader that released it died before it could tell it.
TEST(Succession, APeerThatWasLeftOutAndInquiresIsFenced) {
  const auto other = peer(2);
  other->handle(Started{}, 0);
  other->handle(PeerLost{PeerId(0)}, 1);
  View view = first_view();
  view.number = {Term(3), 1};
  view.remove(PeerId(0));
  view.remove(PeerId(1));
  hears(*other, 3, ViewMessage{share(view), nullptr}, view.number);
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
  for (const std::int32_t id : {1, 2}) view.serve(PeerId(id), StageId(0));
  hears(second, 1, ViewMessage{share(view), nullptr}, view.number);
  const Actions actions = second.handle(TermCreated{Term(3), true}, 1);
  EXPECT_TRUE(sent<ViewMessage>(actions).empty());
  EXPECT_TRUE(sent<InquiryMessage>(actions).empty());
}

TEST(Succession, ANewcomerAsksUntilAViewComes) {
  const auto newcomer = peer(7);
  EXPECT_EQ(sent<JoinMessage>(newcomer->handle(Started{}, 0)).size(), 4u);
  EXPECT_EQ(sent<JoinMessage>(newcomer->handle(TimerDue{}, 1)).size(), 4u);
  View view = first_view();
  view.add(PeerId(7));
  EXPECT_EQ(sent<TableMessage>(hears(*newcomer, 0, ViewMessage{share(view), nullptr})).size(), 1u);
  EXPECT_TRUE(sent<JoinMessage>(newcomer->handle(TimerDue{}, 2)).empty());

  const auto nobody_answers = peer(8);
  nobody_answers->handle(Started{}, 0);
  for (double now_s = 0.5; now_s < 40; now_s += 0.5) nobody_answers->handle(TimerDue{}, now_s);
  ASSERT_TRUE(nobody_answers->done());
  EXPECT_EQ(nobody_answers->status().code(), ExitStatus::stopped);
}

// The leader that committed step 0 died before the commit reached a spare, and the new leader keeps
// step 1 only.
// Over slow lines a succession takes longer than a newcomer would wait, and perhaps nobody who
// lives was there at the start.
TEST(Succession, AMemberThatHasJoinedLaterWaitsForTheNextLeader) {
  const auto newcomer = peer(5);
  newcomer->handle(Started{}, 0);
  View view = first_view();
  view.add(PeerId(4));
  view.add(PeerId(5));
  for (const std::int32_t id : {1, 2, 3}) view.remove(PeerId(id));
  hears(*newcomer, 0, ViewMessage{share(view), nullptr});
  newcomer->handle(PeerLost{PeerId(0)}, 1);
  for (double now_s = 1; now_s < 100; now_s += 0.2) {
    newcomer->handle(TimerDue{}, now_s);
    const HeartbeatMessage beat{.leader = PeerId(4)};
    newcomer->handle(MessageArrived{PeerId(4), {Incarnation(), view.number, beat}}, now_s);
    ASSERT_FALSE(newcomer->done()) << now_s << ": " << newcomer->status().message();
  }
}

// It is first in its own line, so nobody would be pinged.
TEST(Succession, WhoIsNotInTheNewestViewDoesNotAskForEver) {
  const auto next = inquiring();
  View newer = first_view();
  newer.number.number = 2;
  newer.remove(PeerId(1));
  hears(*next, 2, InquiryAnswer{Term(2), share(newer), nullptr});
  hears(*next, 3, InquiryAnswer{Term(2), share(newer), nullptr});
  for (double now_s = 2; now_s < 32 && !next->done(); now_s += 0.2) {
    next->handle(TimerDue{}, now_s);
    for (const std::int32_t id : {2, 3}) {
      const MessageBody beat = HeartbeatMessage{};
      next->handle(MessageArrived{PeerId(id), {Incarnation(), newer.number, beat}}, now_s);
    }
  }
  EXPECT_TRUE(next->done());
}

TEST(Succession, ALearnerThatMissedCommitsLearnsFromTheLastOne) {
  const auto spare = peer(3);
  spare->handle(Started{}, 0);
  spare->handle(PeerLost{PeerId(0)}, 1);
  View view = first_view();
  view.number = {Term(2), 1};
  view.remove(PeerId(0));
  view.learn(PeerId(3), StageId(0));
  const auto prepared_step = [](const Actions& actions) {
    const auto jobs = all_of<StartJob>(actions);
    return jobs.size() == 1 ? get<PrepareJob>(jobs[0].job).step : Step(-2);
  };
  EXPECT_EQ(prepared_step(hears(*spare, 1, ViewMessage{share(view), nullptr}, view.number)),
            Step(-1));
  auto second = std::make_shared<CommitRecord>();
  second->step = Step(1);
  hears(*spare, 1, CommitMessage{second, Step(0), Step(-1)}, view.number);
  // What was allocated for an earlier step is of no use.
  EXPECT_EQ(prepared_step(spare->handle(JobFinished{PrepareResult{StageId(0)}, 0}, 1)), Step(1));
  const Actions actions = spare->handle(JobFinished{PrepareResult{StageId(0)}, 0}, 1);
  const auto fetches = sent<FetchMessage>(actions);
  ASSERT_FALSE(fetches.empty());
  EXPECT_EQ(fetches[0].second.at_least, Step(1));
}

// Else a new leader would wait for its answer to the inquiry, in vain.
TEST(Succession, ADepartureCountsBeforeTheViewThatItWasAnnouncedIn) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 3, LostMessage{PeerId(3), true, ""}, {Term(1), 2});
  next->handle(PeerLost{PeerId(0)}, 1);
  const auto asked = sent<InquiryMessage>(next->handle(TermCreated{Term(2), true}, 1));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].first, PeerId(2));
}

// The kind of event that the next leader writes about the last one, when all have answered it.
std::string event_of_the_last_leader(Peer& next, Actions heard) {
  if (all_of<CreateTerm>(heard).empty()) return "nothing";
  next.handle(TermCreated{Term(2), true}, 1);
  hears(next, 2, InquiryAnswer{Term(2), share(first_view()), nullptr});
  for (const StoreRecord& record :
       all_of<StoreRecord>(hears(next, 3, InquiryAnswer{Term(2), share(first_view()), nullptr}))) {
    const auto* row = std::get_if<EventRow>(&record.row);
    if (row != nullptr && row->peer == 0) return name_of(row->kind);
  }
  return "nothing";
}

TEST(Succession, ALeaderThatAnnouncedItsDepartureIsNotCountedAsKilled) {
  const auto next = peer(1);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  EXPECT_EQ(event_of_the_last_leader(*next, hears(*next, 0, LostMessage{PeerId(0), true, ""})),
            "leave");
}

// Messages of two senders come in any order.
TEST(Succession, AnotherMayTellFirstThatTheLeaderHasLeft) {
  const auto other = peer(2);
  hears(*other, 0, ViewMessage{share(first_view()), nullptr});
  const auto told = sent<LostMessage>(hears(*other, 0, LostMessage{PeerId(0), true, ""}));
  ASSERT_EQ(told.size(), 1u);
  const auto next = peer(1);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  EXPECT_EQ(event_of_the_last_leader(*next, hears(*next, 2, told[0].second)), "leave");
}

TEST(Succession, ADepartureCountsAlsoAfterTheLossOfTheProcess) {
  const auto next = peer(1);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  const Actions heard = next->handle(PeerLost{PeerId(0)}, 1);
  hears(*next, 0, LostMessage{PeerId(0), true, ""});
  EXPECT_EQ(event_of_the_last_leader(*next, heard), "leave");
}

// It lives, but the others have continued without it: to them it was lost.
TEST(Succession, ALeaderThatWasFencedIsCountedAsKilled) {
  const auto leader = peer(0);
  leader->handle(Started{}, 0);
  leader->handle(TermCreated{Term(1), true}, 0);
  const auto departures = sent<LostMessage>(hears(*leader, 1, FencedMessage{}));
  ASSERT_FALSE(departures.empty());
  const auto next = peer(1);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  const Actions heard = next->handle(PeerLost{PeerId(0)}, 1);
  hears(*next, 0, departures[0].second);
  EXPECT_EQ(event_of_the_last_leader(*next, heard), "kill");
}

TEST(Succession, ALeaderThatAnnouncedNothingWasKilled) {
  const auto next = peer(1);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  EXPECT_EQ(event_of_the_last_leader(*next, next->handle(PeerLost{PeerId(0)}, 1)), "kill");
}

// Here the deaths of 0 and 1 were not heard of: whoever asks would take this peer for silent.
TEST(Succession, WhoeverIsPromisedToLeadHearsThatThisPeerLives) {
  const auto other = peer(3);
  other->handle(Started{}, 0);
  hears(*other, 0, ViewMessage{share(first_view()), nullptr});
  EXPECT_EQ(sent<InquiryAnswer>(hears(*other, 2, InquiryMessage{Term(2)})).size(), 1u);
  std::set<PeerId> beats;
  for (double now_s = 1.2; now_s < 3; now_s += 0.2) {
    for (const auto& [to, beat] : sent<HeartbeatMessage>(other->handle(TimerDue{}, now_s))) {
      beats.insert(to);
    }
  }
  EXPECT_TRUE(beats.contains(PeerId(2)));
}

// Its next leader's plans are made of tables that are taken since.
TEST(Succession, AnOrderOfALeaderThatHasHandedOverIsDropped) {
  const auto replica = peer(2);
  replica->handle(Started{}, 0);
  View of_the_next = first_view();
  of_the_next.number = {Term(2), 1};
  of_the_next.abstain(PeerId(0));
  hears(*replica, 1, ViewMessage{share(of_the_next), nullptr}, {Term(2), 1});
  const IssueMessage issue{{Step(0), Purpose::train, 0}, nullptr};
  EXPECT_TRUE(all_of<StartJob>(hears(*replica, 0, issue, {Term(1), 1})).empty());
  EXPECT_FALSE(all_of<StartJob>(hears(*replica, 1, issue, {Term(2), 1})).empty());
}

TEST(Succession, TheNextThatDoesNotAbstainTakesATermFromALeaderWhoseDiskHangs) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  const auto asked =
      all_of<CreateTerm>(hears(*next, 0, AbstainMessage{"a disk hangs", {{{PeerId(0), 1}}}}));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].term, Term(2));
}

TEST(Succession, WhoComesBeforeAPeerThatHasShownThatItCanStoreIsPassedOver) {
  const auto next = peer(1);
  const auto shown = peer(2);
  for (const auto& one : {next.get(), shown.get()}) {
    one->handle(Started{}, 0);
    hears(*one, 0, ViewMessage{share(first_view()), nullptr});
  }
  const AbstainMessage abstain{"a disk hangs", {{{PeerId(0), 1}, {PeerId(1), 1}}}};
  EXPECT_TRUE(all_of<CreateTerm>(hears(*next, 0, abstain)).empty());
  EXPECT_EQ(all_of<CreateTerm>(hears(*shown, 0, abstain)).size(), 1u);
}

// The first works again, while the second is to lead, and its disk hangs as well.
TEST(Succession, WhoIsToLeadAndAbstainsKnowsWhoWorksAgain) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  View view = first_view();
  for (const std::int32_t id : {2, 3}) view.remove(PeerId(id));
  hears(*next, 0, ViewMessage{share(view), nullptr});
  hears(*next, 0, AbstainMessage{"a disk hangs", {{{PeerId(0), 1}}}});
  hears(*next, 0, AbleMessage{1});
  std::vector<std::pair<PeerId, AbstainMessage>> told;
  for (double now_s = 1; now_s < 150 && told.empty(); now_s += 0.2) {
    next->handle(TimerDue{}, now_s);
    next->handle(MessageArrived{PeerId(0), {Incarnation(), {Term(1), 1}, PongMessage{now_s}}},
                 now_s);
    told =
        sent<AbstainMessage>(next->handle(WorkProbed{0, {0, 0, "creating a term", 0}, {}}, now_s));
  }
  ASSERT_FALSE(next->done());
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].second.order.comes_before(PeerId(0), PeerId(1)));
}

// It comes back while the checkpoint is looked up to which all fall back, from a disk that hangs:
// so no view is published.
TEST(Succession, ALeaderThatHandsOverTellsWhoHasComeBackSinceItsLastView) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  hears(*next, 0, AbstainMessage{"a disk hangs", {{{PeerId(0), 1}}}});
  next->handle(TermCreated{Term(2), true}, 1);
  const ViewNumber of_term_2{Term(2), 1};
  for (const std::int32_t id : {0, 2}) hears(*next, id, InquiryAnswer{Term(2), no_view(), nullptr});
  const Actions begun = hears(*next, 3, InquiryAnswer{Term(2), no_view(), nullptr});
  for (const Send& own : all_of<Send>(begun)) {
    if (own.to != PeerId(1)) continue;
    for (const auto& [to, table] :
         sent<TableMessage>(next->handle(MessageArrived{PeerId(1), own.message}, 1))) {
      hears(*next, 1, table, of_term_2);
    }
  }
  TableMessage of_a_later_history;
  of_a_later_history.view = of_term_2;
  of_a_later_history.incarnation = Incarnation(5);
  for (const std::int32_t id : {0, 2}) hears(*next, id, of_a_later_history, of_term_2);
  EXPECT_EQ(all_of<LoadManifest>(hears(*next, 3, of_a_later_history, of_term_2)).size(), 1u);
  hears(*next, 0, AbleMessage{1}, of_term_2);
  std::vector<std::pair<PeerId, AbstainMessage>> told;
  for (double now_s = 1; now_s < 150 && told.empty(); now_s += 0.2) {
    const auto handle = [&](const Event& event) {
      const Actions actions = next->handle(event, now_s);
      for (auto& abstain : sent<AbstainMessage>(actions)) told.push_back(std::move(abstain));
      return actions;
    };
    const auto answer = [&](PeerId from, MessageBody body) {
      handle(MessageArrived{from, {Incarnation(), of_term_2, std::move(body)}});
    };
    for (const std::int32_t id : {0, 2, 3}) answer(PeerId(id), PongMessage{now_s});
    const Actions actions = handle(WorkProbed{0, {0, 0, "a read", 0}, {}});
    for (const auto& [to, message] : sent<TryMessage>(actions)) {
      answer(to, TriedMessage{message.number});
    }
    handle(TimerDue{});
  }
  ASSERT_FALSE(told.empty());
  EXPECT_FALSE(told[0].second.order.abstains(PeerId(0)));
}

// Messages of two senders come in any order.
// Only some have had the dead leader's view; a disk that works again counts for all.
TEST(Succession, WhoIsToLeadHearsOfADiskThatWorksFromOneWhoKnowsALaterView) {
  const auto next = peer(1);
  next->handle(Started{}, 0);
  next->handle(PeerLost{PeerId(0)}, 0);
  hears(*next, 2, AbstainMessage{"a disk hangs", {{{PeerId(2), 1}}}}, {});
  hears(*next, 2, AbleMessage{1}, first_view().number);
  std::vector<AbstainMessage> told;
  for (double now_s = 0; now_s < 150 && told.empty(); now_s += 0.2) {
    next->handle(TimerDue{}, now_s);
    for (const std::int32_t other : {2, 3}) {
      next->handle(MessageArrived{PeerId(other), {Incarnation(), {}, PongMessage{now_s}}}, now_s);
    }
    for (const auto& [to, message] :
         sent<AbstainMessage>(next->handle(WorkProbed{0, {0, 0, "creating a term", 0}, {}}, now_s)))
      told.push_back(message);
  }
  ASSERT_FALSE(told.empty());
  EXPECT_FALSE(told[0].order.abstains(PeerId(2)));
}

TEST(Succession, WhoIsFirstByWhatTwoSayWhoAbstainTakesATermWhicheverItHearsFirst) {
  for (const bool in_order : {true, false}) {
    const auto next = peer(2);
    next->handle(Started{}, 0);
    hears(*next, 0, ViewMessage{share(first_view()), nullptr});
    const AbstainMessage first{"a disk hangs", {{{PeerId(0), 1}}}};
    const AbstainMessage second{"another", {{{PeerId(0), 1}, {PeerId(1), 1}}}};
    std::size_t asked = 0;
    for (const bool of_first : {in_order, !in_order}) {
      const Actions actions = hears(*next, of_first ? 0 : 1, of_first ? first : second);
      asked += all_of<CreateTerm>(actions).size();
    }
    EXPECT_EQ(asked, 1u);
  }
}

// Where a death is heard before the last words of the dead.
TEST(Succession, TheOrderOfALeaderThatIsDeadCounts) {
  const auto next = peer(2);
  next->handle(Started{}, 0);
  hears(*next, 0, ViewMessage{share(first_view()), nullptr});
  EXPECT_TRUE(all_of<CreateTerm>(next->handle(PeerLost{PeerId(0)}, 1)).empty());
  const AbstainMessage abstain{"a disk hangs", {{{PeerId(0), 1}, {PeerId(1), 1}}}};
  EXPECT_EQ(all_of<CreateTerm>(hears(*next, 0, abstain)).size(), 1u);
}

// The third has shown that it can store; who led hands over to it, and dies while it tells them.
TEST(Succession, WhatTheDeadHasToldToSomeIsToldToAll) {
  for (const bool in_order : {true, false}) {
    const auto heard = peer(1);
    heard->handle(Started{}, 0);
    hears(*heard, 0, ViewMessage{share(first_view()), nullptr});
    const AbstainMessage abstain{"a disk hangs", {{{PeerId(0), 1}, {PeerId(1), 1}}}};
    if (in_order) hears(*heard, 0, abstain);
    Actions actions = heard->handle(PeerLost{PeerId(0)}, 1);
    if (!in_order) actions = hears(*heard, 0, abstain);
    const auto told = sent<AbstainMessage>(actions);
    ASSERT_EQ(told.size(), 2u);
    EXPECT_EQ(told[0].first, PeerId(2));
    EXPECT_EQ(told[0].second.order, abstain.order);
    EXPECT_EQ(told[1].first, PeerId(3));
  }
}

// Its last view, too, may have come to some only: peer 1 would wait for 3, and 3 for 1, to lead.
TEST(Succession, WhoLeadsNextIsAgreedOnAlsoWhereTheLastViewCameToSomeOnly) {
  const auto one_who_knows = peer(1);
  one_who_knows->handle(Started{}, 0);
  View view = first_view();
  view.number = {Term(2), 1};
  for (const std::int32_t id : {0, 1, 3}) view.abstain(PeerId(id));
  hears(*one_who_knows, 2, ViewMessage{share(view), nullptr}, view.number);
  view.number = {Term(2), 2};
  view.come_back(PeerId(3), 1);
  hears(*one_who_knows, 2, ViewMessage{share(view), nullptr}, view.number);
  const auto told = sent<AbstainMessage>(one_who_knows->handle(PeerLost{PeerId(2)}, 1));
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1].first, PeerId(3));
  EXPECT_FALSE(told[1].second.order.abstains(PeerId(3)));
}

// All disks hang at the start, one after the other.
TEST(Succession, WhoAbstainsShowsThatItsStorageWorksAlsoWhereNobodyHasEverLed) {
  const auto first = peer(0);
  first->handle(Started{}, 0);
  std::vector<AbstainMessage> told;
  double now_s = 0;
  while (now_s < 150 && told.empty()) {
    now_s += 0.2;
    first->handle(TimerDue{}, now_s);
    for (const std::int32_t other : {1, 2, 3}) {
      first->handle(MessageArrived{PeerId(other), {Incarnation(), {}, PongMessage{now_s}}}, now_s);
    }
    const Actions actions = first->handle(WorkProbed{0, {0, 0, "creating a term", 0}, {}}, now_s);
    for (const auto& [to, message] : sent<AbstainMessage>(actions)) told.push_back(message);
  }
  ASSERT_EQ(told.size(), 3u);
  const Actions returned = first->handle(WorkProbed{0, {1, 1, "", 0}, {}}, now_s + 0.1);
  EXPECT_EQ(all_of<StoreProbe>(returned).size(), 1u);
  const auto able = sent<AbleMessage>(first->handle(ProbeStored{}, now_s + 0.1));
  ASSERT_EQ(able.size(), 1u);
  EXPECT_EQ(able[0].first, PeerId(1));
}

TEST(Succession, WhoAbstainsShowsThatItsStorageWorksOnceTheCallHasReturned) {
  const auto passed_over = peer(1);
  passed_over->handle(Started{}, 0);
  hears(*passed_over, 0, ViewMessage{share(first_view()), nullptr});
  View of_the_next = first_view();
  of_the_next.number = {Term(2), 1};
  for (const std::int32_t id : {0, 1}) of_the_next.abstain(PeerId(id));
  const ViewMessage view{share(of_the_next), nullptr};
  EXPECT_EQ(all_of<StoreProbe>(hears(*passed_over, 2, view, {Term(2), 1})).size(), 1u);
  const auto able = sent<AbleMessage>(passed_over->handle(ProbeStored{}, 2));
  ASSERT_EQ(able.size(), 1u);
  EXPECT_EQ(able[0].first, PeerId(2));
  EXPECT_EQ(able[0].second.number, 1);
  EXPECT_TRUE(all_of<StoreProbe>(passed_over->handle(TimerDue{}, 3)).empty()) << "once a view";
  of_the_next.number.number = 2;
  of_the_next.come_back(PeerId(1), 1);
  const ViewMessage again{share(of_the_next), nullptr};
  EXPECT_TRUE(all_of<StoreProbe>(hears(*passed_over, 2, again, {Term(2), 2})).empty());
  passed_over->handle(PeerLost{PeerId(2)}, 4);
  EXPECT_EQ(all_of<CreateTerm>(passed_over->handle(PeerLost{PeerId(3)}, 4)).size(), 1u)
      << "it leads where nobody else is left that does not abstain";
}

TEST(Succession, APeerWhoseJobGoesOnDoesNotGoThoughItIsToldTo) {
  const auto replica = peer(2);
  replica->handle(Started{}, 0);
  hears(*replica, 0, ViewMessage{share(first_view()), nullptr});
  hears(*replica, 0, ResignMessage{"a job hangs"});
  EXPECT_FALSE(replica->done());
}

}  // namespace
}  // namespace swarmpi::succession_test
