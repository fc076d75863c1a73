// The failure detector of one peer: which peers are pinged, which are killed and on whose order,
// and what a peer does that was stopped itself.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>

#include "protocol/membership/failure_detector.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/lanes.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/process_port.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/term_port.hpp"
#include "protocol/messages/transport_port.hpp"
#include "protocol/messages/views.hpp"
#include "protocol/peer.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::suspicion_test {
namespace {

using testing::tiny_plan;

const InitialMembership kMembership{{PeerId(0), PeerId(1), PeerId(2), PeerId(3)}, {}, Term(1)};

// One peer, to which the test hands the timer and messages of other peers.
struct Listener {
  explicit Listener(std::int32_t id, double give_up_after_s = 120) {
    RunPlan plan = tiny_plan(1, 2);
    plan.recovers = true;
    plan.swarm.give_up_after_s = give_up_after_s;
    peer = std::make_unique<Peer>(PeerId(id), plan, kMembership, ResumeState{});
    peer->handle(Started{}, 0);
    if (id == 0) peer->handle(TermCreated{Term(1), true}, 0);
    hears(0, ViewMessage{share(view()), nullptr});
  }
  static View view() {
    View view;
    view.number = {Term(1), 1};
    for (const PeerId id : kMembership.workers) view.serve(id, StageId(0));
    return view;
  }
  Actions hears(std::int32_t from, MessageBody body) {
    return peer->handle(
        MessageArrived{PeerId(from), {Incarnation(), {Term(1), 1}, std::move(body)}}, now_s);
  }
  // Up to this time, with heartbeats of these peers only; notes what the peer does.
  void wait_until(double end_s, const std::vector<std::int32_t>& beating) {
    for (; now_s < end_s; now_s += 0.2) {
      for (const std::int32_t id : beating) {
        note(hears(id, HeartbeatMessage{.leader = PeerId(0), .leader_silent_s = leader_silent_s}));
        answer(id);
      }
      note(peer->handle(TimerDue{}, now_s));
    }
  }
  // All pings that it has got.
  void answer(std::int32_t id) {
    for (const double sent_s : std::exchange(to_be_answered[PeerId(id)], {}))
      note(hears(
          id, HeartbeatMessage{
                  .answers_s = sent_s, .leader = PeerId(0), .leader_silent_s = leader_silent_s}));
  }
  void note(const Actions& actions) {
    for (const Action& action : actions) {
      if (const auto* kill = get_if<KillPeer>(&action)) killed.emplace_back(now_s, kill->peer);
      const auto* send = get_if<Send>(&action);
      if (send == nullptr) continue;
      const auto* suspect = get_if<SuspectMessage>(&send->message.body);
      if (suspect != nullptr) reported.emplace_back(send->to, suspect->peer);
      if (const auto* ping = get_if<PingMessage>(&send->message.body)) {
        pinged.insert(send->to);
        to_be_answered[send->to].push_back(ping->sent_s);
      }
    }
  }
  std::unique_ptr<Peer> peer;
  double now_s = 0;
  std::vector<std::pair<double, PeerId>> killed;
  std::vector<std::pair<PeerId, PeerId>> reported;  // to which peer, which suspect
  std::set<PeerId> pinged;
  std::map<PeerId, std::vector<double>> to_be_answered;
  double leader_silent_s = 100;  // as the others say
};

TEST(Suspicion, TheLeaderHasASilentPeerKilled) {
  Listener leader(0);
  leader.wait_until(2.9, {1, 3});
  EXPECT_TRUE(leader.killed.empty());
  leader.wait_until(3.5, {1, 3});
  ASSERT_EQ(leader.killed.size(), 1u) << "once";
  EXPECT_EQ(leader.killed[0].second, PeerId(2));
}

// The events that these actions store.
std::vector<EventRow> events_in(const Actions& actions) {
  std::vector<EventRow> events;
  for (const Action& action : actions) {
    const auto* store = get_if<StoreRecord>(&action);
    const auto* event = store == nullptr ? nullptr : std::get_if<EventRow>(&store->row);
    if (event != nullptr) events.push_back(*event);
  }
  return events;
}

TEST(Suspicion, ADeathThatFollowsFromItIsRecordedSo) {
  Listener leader(0);
  leader.wait_until(3.5, {1, 3});
  ASSERT_EQ(leader.killed.size(), 1u);
  const std::vector<EventRow> events = events_in(leader.peer->handle(PeerLost{PeerId(2)}, 3.6));
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(events[0].kind, EventKind::suspect);
  EXPECT_EQ(events[0].peer, 2);
  EXPECT_GT(events[0].cost_s, 3);
  EXPECT_NE(events[0].detail.find("peer 0 had not heard it for 3."), std::string::npos)
      << events[0].detail;
  EXPECT_EQ(events[1].kind, EventKind::kill);
  EXPECT_NE(events[1].detail.find("it was killed because peer 0 had not heard it for 3."),
            std::string::npos)
      << events[1].detail;
}

TEST(Suspicion, ADeathThatNobodyHasOrderedIsNoSuspects) {
  Listener leader(0);
  leader.wait_until(1, {1, 2, 3});
  const std::vector<EventRow> events = events_in(leader.peer->handle(PeerLost{PeerId(2)}, 1.1));
  ASSERT_GE(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::kill);
  EXPECT_EQ(events[0].detail, "peer 2 was lost");
}

TEST(Suspicion, TheNextInLineHasALeaderKilledThatIsSilentForLonger) {
  Listener next(1);
  next.wait_until(4.4, {2, 3});
  EXPECT_TRUE(next.killed.empty()) << "a leader that lives would have killed this peer by now";
  next.wait_until(5, {2, 3});
  ASSERT_EQ(next.killed.size(), 1u);
  EXPECT_EQ(next.killed[0].second, PeerId(0));
}

TEST(Suspicion, NoOtherPeerActsAsLongAsTheNextInLineAnswers) {
  Listener third(2);
  third.wait_until(4.4, {1});
  third.wait_until(20, {1});
  EXPECT_TRUE(third.killed.empty());
  EXPECT_TRUE(third.pinged.contains(PeerId(1)));
  third.wait_until(26, {3});
  ASSERT_EQ(third.killed.size(), 2u) << "now this peer is the next in line";
  EXPECT_EQ(third.killed[0].second, PeerId(0));
  EXPECT_EQ(third.killed[1].second, PeerId(1));
}

TEST(Suspicion, APeerThatOwesSomethingIsPingedAndReported) {
  RunPlan plan = tiny_plan(2, 2);
  plan.recovers = true;
  Listener first(1);
  first.peer = std::make_unique<Peer>(PeerId(1), plan, kMembership, ResumeState{});
  first.peer->handle(Started{}, 0);
  View view = Listener::view();
  for (const std::int32_t id : {2, 3}) view.serve(PeerId(id), StageId(1));
  first.hears(0, ViewMessage{share(view), nullptr});
  const MicrobatchId id{Step(0), Purpose::train, 0};
  first.hears(0, IssueMessage{id, nullptr});
  first.note(first.peer->handle(JobFinished{ForwardResult{{id, StageId(0)}, nullptr, 0}, 0}, 0));
  first.wait_until(2.9, {0});
  EXPECT_TRUE(first.pinged.empty());
  first.wait_until(7.3, {0});
  ASSERT_EQ(first.pinged.size(), 1u) << "the one that has the microbatch";
  EXPECT_TRUE(first.reported.empty());
  first.wait_until(8.2, {0});
  ASSERT_FALSE(first.reported.empty());
  EXPECT_EQ(first.reported[0], std::pair(PeerId(0), *first.pinged.begin()));
  EXPECT_TRUE(first.killed.empty());
}

TEST(Suspicion, WhereALinkIsCutThePeerThatDoesNotHearTheOtherIsKilled) {
  Listener leader(0);
  leader.wait_until(1, {1, 2, 3});
  for (double end_s = 1.2; end_s < 4.9; end_s += 0.2) {
    leader.note(leader.hears(3, SuspectMessage{PeerId(2)}));
    leader.wait_until(end_s, {1, 2, 3});
  }
  ASSERT_EQ(leader.killed.size(), 1u);
  EXPECT_EQ(leader.killed[0].second, PeerId(3));
}

// One whose suspects nobody can kill; it waits ten seconds for them.
struct Waiting : Listener {
  explicit Waiting(std::int32_t id) : Listener(id, 10) {}
};

TEST(Suspicion, WhoCannotBeKilledIsWaitedForAndThatIsRecorded) {
  Waiting leader(0);
  leader.wait_until(3.5, {1, 3});
  const std::vector<EventRow> events =
      events_in(leader.peer->handle(KillFailed{PeerId(2)}, leader.now_s));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::late);
  EXPECT_EQ(events[0].peer, 2);
  EXPECT_NE(events[0].detail.find("the run waits for it for 10 s"), std::string::npos)
      << events[0].detail;
  EXPECT_TRUE(events_in(leader.peer->handle(KillFailed{PeerId(2)}, leader.now_s)).empty())
      << "it is told once";
  leader.wait_until(12, {1, 3});
  EXPECT_FALSE(leader.peer->done());
  EXPECT_GE(leader.killed.size(), 3u) << "the order is repeated: somebody may hear it now";
}

TEST(Suspicion, WhoSpeaksAgainIsKilledNoMoreThoughNobodyCouldBefore) {
  for (const bool leads : {true, false}) {
    Waiting peer(leads ? 0 : 1);
    const std::vector<std::int32_t> others = leads ? std::vector{1, 3} : std::vector{2, 3};
    const std::vector<std::int32_t> all = leads ? std::vector{1, 2, 3} : std::vector{0, 2, 3};
    peer.wait_until(11, others);
    EXPECT_GE(peer.killed.size(), 2u);
    peer.killed.clear();
    peer.wait_until(60, all);
    EXPECT_TRUE(peer.killed.empty());
    EXPECT_FALSE(peer.peer->done());
  }
}

TEST(Suspicion, WhereASuspectCannotBeKilledTheRunEndsAfterAWhileAndCanBeResumed) {
  Waiting leader(0);
  leader.wait_until(17, {1, 3});
  leader.peer->handle(EndDurable{}, leader.now_s);
  leader.hears(1, EndHeard{});
  leader.hears(3, EndHeard{});
  ASSERT_TRUE(leader.peer->done());
  EXPECT_EQ(leader.peer->status().code(), ExitStatus::stopped);
  const std::string why = leader.peer->status().message();
  EXPECT_NE(why.find("peer 2 does not answer, and cannot be killed"), std::string::npos) << why;

  Waiting next(1);
  next.wait_until(18, {2, 3});
  ASSERT_TRUE(next.peer->done()) << "it does not lead: the leader may live";
  EXPECT_EQ(next.peer->status().code(), ExitStatus::stopped);
  EXPECT_TRUE(next.peer->reports_outcome()) << "nobody else does";
}

// They may go on: what comes to this peer is cut off.
TEST(Suspicion, WhoHearsNoneOfTheOthersKillsNobodyAndEndsItselfAfterAWhile) {
  for (const std::int32_t id : {0, 1}) {
    Waiting alone(id);
    alone.wait_until(12, {});
    EXPECT_FALSE(alone.peer->done()) << "their hosts may be stopped";
    bool ends_for_all = false;
    for (; alone.now_s < 20 && !alone.peer->done(); alone.now_s += 0.2) {
      for (const Action& action : alone.peer->handle(TimerDue{}, alone.now_s)) {
        const auto* send = get_if<Send>(&action);
        ends_for_all = ends_for_all || holds_alternative<StoreEnd>(action) ||
                       (send != nullptr && holds_alternative<EndMessage>(send->message.body));
      }
    }
    ASSERT_TRUE(alone.peer->done());
    EXPECT_TRUE(alone.killed.empty());
    EXPECT_FALSE(ends_for_all);
    EXPECT_TRUE(alone.peer->reports_outcome());
    EXPECT_EQ(alone.peer->status().code(), ExitStatus::stopped);
    EXPECT_EQ(alone.peer->status().message(),
              "this peer hears none of the others: they may continue the run without it, or have "
              "ended");
  }
}

// Peers 1 and 2 say that they do not hear the leader, until it ends, for some seconds at most.
void most_are_deaf(Listener& leader) {
  while (leader.now_s < 6 && !leader.peer->done()) {
    for (const std::int32_t deaf : {1, 2})
      leader.note(leader.hears(deaf, HeartbeatMessage{.you_silent_s = 4}));
    leader.wait_until(leader.now_s + 0.1, {3});
  }
}

TEST(Suspicion, ALeaderThatMostDoNotHearEndsItself) {
  Listener leader(0);
  most_are_deaf(leader);
  ASSERT_TRUE(leader.peer->done());
  EXPECT_TRUE(leader.killed.empty());
  EXPECT_EQ(leader.peer->status().code(), ExitStatus::stopped);
  EXPECT_EQ(leader.peer->status().message(),
            "most of the others do not hear this peer: they may continue the run without it, or "
            "have ended");
}

// The mark of the end is stored: whoever leads after it finds that.
TEST(Suspicion, ALeaderThatHasEndedTheRunDoesNotWaitForThoseThatDoNotHearIt) {
  Listener leader(0);
  leader.wait_until(1, {1, 2, 3});
  leader.hears(3, FailureMessage{ExitStatus::stopped, "no space left"});
  leader.peer->handle(RecordDurable{1}, leader.now_s);
  leader.peer->handle(EndDurable{}, leader.now_s);
  leader.hears(3, EndHeard{});
  most_are_deaf(leader);
  ASSERT_TRUE(leader.peer->done());
  EXPECT_EQ(leader.peer->status().message(), "no space left");
}

// It waits from the stop on, not from the order; and nobody may lead in the leader's place.
TEST(Suspicion, InAStopALeaderThatCannotBeKilledIsWaitedForAsLongAsAStopMayWait) {
  Listener next(1);
  next.wait_until(40, {2, 3});
  ASSERT_FALSE(next.peer->done());
  next.note(next.peer->handle(StopRequested{"SIGUSR1"}, next.now_s));
  next.wait_until(49, {2, 3});
  ASSERT_FALSE(next.peer->done()) << "its host may go on";
  next.wait_until(54, {2, 3});
  ASSERT_TRUE(next.peer->done());
  EXPECT_EQ(next.peer->status().code(), ExitStatus::stopped);
  const std::string why = next.peer->status().message();
  for (const char* words : {"SIGUSR1", "peer 0 does not answer, and cannot be killed"})
    EXPECT_NE(why.find(words), std::string::npos) << why;
}

// They are not left: nobody has tried to kill them, and they can make the checkpoint.
TEST(Suspicion, ALeaderThatHearsNobodyInAStopEndsItselfAsSoonAsAStopMayWait) {
  Listener leader(0);
  leader.wait_until(5, {});
  leader.note(leader.peer->handle(StopRequested{"SIGUSR1"}, leader.now_s));
  leader.wait_until(12, {});
  ASSERT_FALSE(leader.peer->done());
  leader.wait_until(20, {});
  ASSERT_TRUE(leader.peer->done());
  EXPECT_TRUE(leader.killed.empty());
  EXPECT_EQ(leader.peer->status().message(),
            "SIGUSR1; this peer hears none of the others: they may continue the run without it, or "
            "have ended");
}

// USR1 to mpirun does not reach a host that is stopped.
TEST(Suspicion, AStopThatAllButAnUnkillablePeerHaveHeardIsAnnouncedWithoutIt) {
  Listener leader(0);
  leader.wait_until(3.5, {1, 3});
  leader.peer->handle(StopRequested{"SIGUSR1"}, leader.now_s);
  for (const std::int32_t id : {1, 3}) leader.hears(id, NoticeMessage{"SIGUSR1"});
  leader.wait_until(5.5, {1, 3});
  EXPECT_FALSE(leader.peer->done());
  const auto end_in = [](const Actions& actions) {
    return std::any_of(actions.begin(), actions.end(),
                       [](const Action& action) { return holds_alternative<StoreEnd>(action); });
  };
  leader.peer->handle(RecordDurable{1}, leader.now_s);  // its `leader` event
  leader.peer->handle(KillFailed{PeerId(2)}, leader.now_s);
  EXPECT_TRUE(end_in(leader.peer->handle(RecordDurable{2}, leader.now_s))) << "the event `late` is";
  leader.peer->handle(EndDurable{}, leader.now_s);
  leader.hears(1, EndHeard{});
  EXPECT_FALSE(leader.peer->done());
  leader.hears(3, EndHeard{});
  ASSERT_TRUE(leader.peer->done());
  EXPECT_EQ(leader.peer->status().code(), ExitStatus::stopped);
}

TEST(Suspicion, AnOrderOverACutLinkFallsWithTheReports) {
  Waiting leader(0);
  leader.wait_until(1, {1, 2, 3});
  for (double end_s = 1.2; leader.killed.empty() && end_s < 9; end_s += 0.2) {
    leader.note(leader.hears(3, SuspectMessage{PeerId(2)}));
    leader.wait_until(end_s, {1, 2, 3});
  }
  ASSERT_EQ(leader.killed.size(), 1u);
  leader.wait_until(60, {1, 2, 3});
  EXPECT_EQ(leader.killed.size(), 1u) << "the link was healed before anybody could";
  EXPECT_FALSE(leader.peer->done());
}

// The pong waits behind what was sent before it, as a proof that this has arrived.
TEST(Suspicion, APingIsAnsweredWithAHeartbeatThatNeedNotWait) {
  Listener peer(2);
  std::vector<bool> waits;
  for (const bool wants_pong : {false, true}) {
    for (const Action& action : peer.hears(1, PingMessage{0, wants_pong})) {
      const auto* send = get_if<Send>(&action);
      if (send != nullptr && send->to == PeerId(1)) waits.push_back(!overtakes(send->message));
    }
  }
  EXPECT_EQ(waits, (std::vector{false, false, true}));
}

// ---- A peer that was stopped

TEST(Suspicion, APeerThatWasStoppedForLongDoesNothingUntilAnotherAnswers) {
  Listener peer(1);
  peer.wait_until(1, {0, 2, 3});
  peer.now_s = 60;
  const MicrobatchId id{Step(0), Purpose::train, 0};
  const auto starts = [](const Actions& actions) {
    return std::any_of(actions.begin(), actions.end(),
                       [](const Action& action) { return holds_alternative<StartJob>(action); });
  };
  const Actions woken = peer.hears(0, IssueMessage{id, nullptr});
  EXPECT_FALSE(starts(woken)) << "what comes may be old";
  peer.note(woken);
  EXPECT_EQ(peer.pinged.size(), 3u);
  EXPECT_FALSE(starts(peer.hears(0, PongMessage{0.5}))) << "answers an older ping";
  EXPECT_TRUE(starts(peer.hears(0, PongMessage{60})));
  EXPECT_TRUE(peer.killed.empty());
}

// The others have had time enough to answer meanwhile, but whoever was stopped decides nothing.
TEST(Suspicion, ALeaderThatWasStoppedGivesNobodyUpBeforeAnotherAnswers) {
  Listener leader(0);
  leader.wait_until(1, {1, 2, 3});
  leader.peer->handle(StopRequested{"SIGUSR1"}, leader.now_s);
  for (const std::int32_t id : {1, 2, 3}) leader.hears(id, NoticeMessage{"SIGUSR1"});
  leader.peer->handle(RecordDurable{1}, leader.now_s);
  leader.peer->handle(EndDurable{}, leader.now_s);
  for (const std::int32_t id : {1, 2}) leader.hears(id, EndHeard{});
  leader.now_s = 60;
  for (const Action& action : leader.peer->handle(TimerDue{}, leader.now_s)) {
    const auto* timer = get_if<SetTimer>(&action);
    if (timer != nullptr) {
      EXPECT_GT(timer->due_s, leader.now_s);
    }
  }
  EXPECT_FALSE(leader.peer->done());
  leader.hears(1, PongMessage{60});
  EXPECT_TRUE(leader.peer->done());
}

TEST(Suspicion, APeerThatWasTakenForDeadIsFencedAndEnds) {
  Listener other(2);
  other.peer->handle(PeerLost{PeerId(1)}, 0);
  bool was_fenced = false;
  for (const Action& action : other.hears(1, PingMessage{0})) {
    const auto* send = get_if<Send>(&action);
    was_fenced = was_fenced || (send != nullptr && send->to == PeerId(1) &&
                                holds_alternative<FencedMessage>(send->message.body));
  }
  EXPECT_TRUE(was_fenced);
  Listener taken_for_dead(1);
  taken_for_dead.hears(2, FencedMessage{});
  ASSERT_TRUE(taken_for_dead.peer->done());
  EXPECT_EQ(taken_for_dead.peer->status().code(), ExitStatus::stopped);
}

TEST(Suspicion, APeerThatWasStoppedAndFindsNobodyDoesNotLead) {
  Listener peer(1);
  peer.wait_until(1, {0, 2, 3});
  peer.now_s = 60;
  peer.peer->handle(TimerDue{}, peer.now_s);
  for (const std::int32_t id : {0, 2, 3}) peer.peer->handle(PeerLost{PeerId(id)}, peer.now_s);
  ASSERT_TRUE(peer.peer->done());
  EXPECT_EQ(peer.peer->status().code(), ExitStatus::stopped);
}

}  // namespace
}  // namespace swarmpi::suspicion_test
