// Single decisions of a leader, from reports, tables, notices and the time.

#include "protocol/leader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/membership/hearing_test.hpp"
#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/collectives.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/message_traits.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/reports.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/stalls.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/views.hpp"
#include "protocol/method/layout.hpp"
#include "protocol/step/restart_point.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::leader_test {
namespace {

using testing::tiny_plan;

// The events of checkpoints that are not to be had, among these actions.
std::vector<EventRow> dropped(const Actions& actions) {
  std::vector<EventRow> events;
  for (const Action& action : actions) {
    const auto* store = get_if<StoreRecord>(&action);
    const auto* event = store == nullptr ? nullptr : std::get_if<EventRow>(&store->row);
    if (event != nullptr && event->kind == EventKind::dropped) events.push_back(*event);
  }
  return events;
}

// Peers 0, which leads, and 1 serve stage 0; peer 2 serves stage 1. The first view is published.
struct LeaderOfThree {
  LeaderOfThree() : LeaderOfThree(false) {}
  // `learner`: peer 3 is there too, and learns stage 1.
  explicit LeaderOfThree(bool learner, RunPlan of = tiny_plan(2, 2)) : plan(std::move(of)) {
    plan.recovers = true;
    Succession succession;
    succession.term = Term(1);
    for (const std::int32_t id : {0, 1}) succession.view.serve(PeerId(id), StageId(0));
    succession.view.serve(PeerId(2), StageId(1));
    if (learner) {
      succession.view.add(PeerId(3));
      succession.view.learn(PeerId(3), StageId(1));
    }
    succession.at_start.workers = 3;
    succession.at_start.highest_id_at_start = PeerId(3);
    leader = std::make_unique<Leader>(PeerId(0), plan, CommitLog(plan, {}), succession, outbox,
                                      hearing.detector, now_s);
    leader->begin({});
    leader->lead();
    outbox.take();
  }
  void reports(std::int32_t from, std::int32_t stage, const std::vector<std::int32_t>& indices) {
    ReportMessage report;
    for (const std::int32_t index : indices) {
      const MicrobatchId id{Step(0), Purpose::train, index};
      report.contributions.push_back({{id, StageId(stage)}, {kernels::Contribution{}}});
      if (stage == 1) report.losses.push_back({id, 1.0});
    }
    leader->receive(report, PeerId(from));
  }
  // How many messages of this kind it sends when it decides at this time.
  template <class Body>
  std::size_t sent_when_at(double at_s) {
    now_s = at_s;
    leader->lead();
    std::size_t count = 0;
    for (const Action& action : outbox.take()) {
      const auto* send = get_if<Send>(&action);
      count += send != nullptr && holds_alternative<Body>(send->message.body) ? 1 : 0;
    }
    return count;
  }
  RunPlan plan;
  Outbox outbox;
  testing::Hearing hearing{plan, 4};
  double now_s = 0;
  std::unique_ptr<Leader> leader;
};

TEST(Leader, AReportOnAStageThatItsSenderHasLeftDoesNotCount) {
  LeaderOfThree scene;
  scene.reports(0, 0, {0, 1, 2, 3, 4});
  scene.reports(2, 1, {1, 2, 3, 4});
  scene.reports(1, 1, {0});  // sent before it left stage 1: its sums are gone
  EXPECT_EQ(scene.sent_when_at<SealMessage>(0), 0u);
  scene.reports(2, 1, {0});
  EXPECT_EQ(scene.sent_when_at<SealMessage>(0), 3u) << "to each peer";
}

// To whom a view was sent whole, and to whom as a delta, since the last call.
struct ViewsSent {
  explicit ViewsSent(const Actions& actions) {
    for (const Action& action : actions) {
      const auto* send = get_if<Send>(&action);
      const auto* view = send == nullptr ? nullptr : get_if<ViewMessage>(&send->message.body);
      if (view == nullptr) continue;
      (view->delta ? changes : whole)[send->to] = *view;
    }
  }
  std::map<PeerId, ViewMessage> whole, changes;
};

TEST(Leader, TellsOthersWhatHasChangedInAViewAndANewcomerTheWholeView) {
  LeaderOfThree scene;
  scene.leader->receive(JoinMessage{PeerId(9), {}}, PeerId(9));
  const ViewsSent sent(scene.outbox.take());
  ASSERT_EQ(sent.changes.size(), 3u);
  ASSERT_EQ(sent.whole.size(), 1u);
  EXPECT_TRUE(sent.whole.contains(PeerId(9)));
  const ViewDelta& delta = *sent.changes.at(PeerId(1)).delta;
  EXPECT_EQ(delta.base, (ViewNumber{Term(1), 1}));
  EXPECT_EQ(delta.number, scene.leader->view().number);
  ASSERT_EQ(delta.changed.size(), 1u);
  EXPECT_EQ(delta.changed[0].peer, PeerId(9));
}

TEST(Leader, SendsTheFirstViewOfAnIncarnationWhole) {
  LeaderOfThree scene;
  scene.leader->lost(PeerId(2), "peer 2 was lost");
  EXPECT_EQ(ViewsSent(scene.outbox.take()).changes.size(), 2u);
  for (const std::int32_t id : {0, 1}) {
    TableMessage table;
    table.view = scene.leader->view().number;
    scene.leader->receive(table, PeerId(id));
  }
  scene.leader->receive(ManifestLoaded{});
  const ViewsSent sent(scene.outbox.take());
  EXPECT_TRUE(sent.changes.empty());
  ASSERT_EQ(sent.whole.size(), 2u) << "stage 1 is lost: all go back";
  EXPECT_TRUE(sent.whole.at(PeerId(1)).restart);
}

TEST(Leader, SendsTheWholeViewToWhoeverAsksForIt) {
  LeaderOfThree scene;
  scene.leader->receive(WholeViewRequest{}, PeerId(2));
  const ViewsSent sent(scene.outbox.take());
  ASSERT_EQ(sent.whole.size(), 1u);
  EXPECT_EQ(*sent.whole.at(PeerId(2)).view, scene.leader->view());
}

TEST(Leader, HandsOverOnlyToAPeerThatHasShownThatItCanStore) {
  LeaderOfThree scene;
  scene.leader->storage_hangs("a disk hangs");
  EXPECT_EQ(scene.sent_when_at<TryMessage>(1), 2u) << "to both others";
  EXPECT_FALSE(scene.leader->hands_over());
  scene.leader->receive(TriedMessage{1}, PeerId(2));
  scene.sent_when_at<TryMessage>(1 + scene.plan.swarm.suspect_after_s);
  ASSERT_TRUE(scene.leader->hands_over());
  EXPECT_EQ(scene.leader->hands_over()->why, "a disk hangs");
  EXPECT_EQ(scene.leader->hands_over()->to, PeerId(2));
}

TEST(Leader, WhoseStorageWorksAgainMayLeadFromTheNextViewOnAfterAllOthers) {
  LeaderOfThree scene;
  scene.leader->receive(AbleMessage{1}, PeerId(2));
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(0), 3u);
  EXPECT_EQ(scene.leader->view().order().number_of(PeerId(2)), 2);
  EXPECT_EQ(scene.leader->view().leader(), PeerId(0));
  scene.leader->receive(AbleMessage{1}, PeerId(2));
  for (const std::int32_t id : {0, 1, 2}) {
    TableMessage table;
    table.view = {Term(1), 2};
    scene.leader->receive(table, PeerId(id));
  }
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(0), 0u) << "that is known already";
}

TEST(Leader, CommitsNothingWhileReplicasHoldDifferentGradients) {
  LeaderOfThree scene;
  scene.reports(0, 0, {0, 1, 2, 3, 4});
  scene.reports(2, 1, {0, 1, 2, 3, 4});
  ASSERT_EQ(scene.sent_when_at<SealMessage>(0), 3u);
  const auto acknowledge = [&](std::int64_t attempt, std::uint64_t hash_of_peer_1) {
    const GradientFacts good{{4.0}, 7, {}}, other{{4.0}, hash_of_peer_1, {}};
    scene.leader->receive(ReducedMessage{Step(0), StageId(0), attempt, good}, PeerId(0));
    scene.leader->receive(ReducedMessage{Step(0), StageId(0), attempt, other}, PeerId(1));
  };
  scene.leader->receive(ReducedMessage{Step(0), StageId(1), 0, {{4.0}, 0, {}}}, PeerId(2));
  acknowledge(0, 8);
  scene.leader->lead();
  std::int64_t seals = 0, commits = 0;
  for (const Action& action : scene.outbox.take()) {
    const auto* send = get_if<Send>(&action);
    if (send == nullptr) continue;
    if (const auto* seal = get_if<SealMessage>(&send->message.body)) {
      ++seals;
      const bool in_doubt = send->to != PeerId(2);
      ASSERT_EQ(seal->stages.size(), in_doubt ? 1u : 0u) << "stage 1 is not";
      if (in_doubt) {
        EXPECT_EQ(seal->stages[0].attempt, 1);
      }
    }
    commits += holds_alternative<CommitMessage>(send->message.body) ? 1 : 0;
  }
  EXPECT_EQ(seals, 3);
  EXPECT_EQ(commits, 0);
  acknowledge(1, 9);
  EXPECT_EQ(scene.sent_when_at<CommitMessage>(0), 0u) << "they differ again: the run ends";
  acknowledge(1, 7);
  EXPECT_EQ(scene.sent_when_at<CommitMessage>(0), 0u);
}

TEST(Leader, WithoutProgressItBeginsATableRoundAndWaitsTwiceAsLongEachTime) {
  LeaderOfThree scene;
  const double patience_s = 4 * scene.plan.swarm.suspect_after_s;
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(patience_s), 0u);
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(patience_s + 0.1), 3u);
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(2 * patience_s), 0u) << "tables are awaited";
  for (const std::int32_t id : {0, 1, 2}) {
    TableMessage table;
    table.view = {Term(1), 2};
    scene.leader->receive(table, PeerId(id));
  }
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(4 * patience_s), 0u) << "twice as long from then on";
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(4 * patience_s + 0.1), 3u);
}

// Of thousands over slow lines they come one after the other.
TEST(Leader, ATableThatComesIsProgress) {
  LeaderOfThree scene;
  const double patience_s = 4 * scene.plan.swarm.suspect_after_s;
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(patience_s + 0.1), 3u);
  TableMessage table;
  table.view = {Term(1), 2};
  for (const std::int32_t id : {0, 1}) {
    scene.now_s += 1.5 * patience_s;
    scene.leader->receive(table, PeerId(id));
    EXPECT_EQ(scene.sent_when_at<ViewMessage>(scene.now_s), 0u);
  }
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(scene.now_s + 1.9 * patience_s), 0u);
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(scene.now_s + 0.2 * patience_s), 3u)
      << "the last one does not come";
}

// Peer 2 says that its job is late as the view without peer 1 comes, and is done before its timer
// asks it again: then it has nothing more to say.
TEST(Leader, WhatWasLateInAnOlderViewIsNotLateInTheNext) {
  LeaderOfThree scene;
  const auto is_named = [&] {
    scene.outbox.take();
    scene.leader->receive(LateMessage{Task::job, true, "a pass", 99}, PeerId(2));
    const Actions actions = scene.outbox.take();
    return std::any_of(actions.begin(), actions.end(), [](const Action& action) {
      const auto* store = get_if<StoreRecord>(&action);
      const auto* event = store == nullptr ? nullptr : std::get_if<EventRow>(&store->row);
      return event != nullptr && event->kind == EventKind::late;
    });
  };
  scene.leader->lost(PeerId(1), "peer 1 was lost");
  scene.leader->lead();
  EXPECT_FALSE(is_named()) << "from the view with peer 1";
  TableMessage table;
  table.view = {Term(1), 2};
  scene.leader->receive(table, PeerId(2));
  EXPECT_TRUE(is_named()) << "told again";
}

// Peers 0 and 1 serve stage 0, peer 2 serves stage 1, peer 3 learns it; step 0 is committed, and
// all agree on the state after it.
struct LeaderWithALearner : LeaderOfThree {
  // `hangs`: whose storage does, before step 0 is committed.
  explicit LeaderWithALearner(RunPlan of = tiny_plan(2, 2), std::optional<PeerId> hangs = {})
      : LeaderOfThree(true, std::move(of)) {
    if (hangs) leader->receive(LateMessage{Task::storage, true, "syncing a", 3}, *hangs);
    reports(0, 0, {0, 1, 2, 3, 4});
    reports(2, 1, {0, 1, 2, 3, 4});
    leader->lead();
    for (const auto& [peer, stage] : {std::pair{0, 0}, {1, 0}, {2, 1}, {3, 1}}) {
      leader->receive(ReducedMessage{Step(0), StageId(stage), 0, {{0.0}, 1, {}}}, PeerId(peer));
    }
    leader->lead();
    for (const auto& [peer, stage] : {std::pair{0, 0}, {1, 0}, {2, 1}}) {
      ReportMessage hashes;
      hashes.hashes = {{Step(0), StageId(stage), {{kHash}, {}}}};
      leader->receive(hashes, PeerId(peer));
    }
    leader->lead();
    after_step_0 = outbox.take();
  }
  // Peers 0 and 2 store their parts of the checkpoint of step 0, but that of stage 1 is not found.
  void a_part_is_lost() {
    for (const auto& [peer, stage] : {std::pair{0, 0}, {2, 1}}) {
      leader->receive(StageStoredMessage{Step(0), StageId(stage), true, {}, {kHash}, ""},
                      PeerId(peer));
    }
    leader->receive(CheckpointDropped{Step(0), 1, "cannot read /x/stage-1.h5"});
  }
  // All rows are durable: how the run ends, if it does.
  std::optional<StoreEnd> ends() {
    std::int64_t last = 0;
    for (const Action& action : outbox.take()) {
      if (const auto* store = get_if<StoreRecord>(&action)) last = store->number;
    }
    leader->receive(RecordDurable{last});
    leader->lead();
    for (const Action& action : outbox.take()) {
      if (const auto* end = get_if<StoreEnd>(&action)) return *end;
    }
    return std::nullopt;
  }
  // Peer 2 dies; all others answer the new view, peer 3 with this as the state that it has learned.
  void last_replica_dies(std::uint64_t learned) {
    leader->lost(PeerId(2), "lost");
    for (const std::int32_t id : {0, 1, 3}) {
      TableMessage table;
      table.view = leader->view().number;
      if (id == 3) table.learned = {{StageId(1), Step(0), {learned}}};
      leader->receive(table, PeerId(id));
    }
  }
  bool falls_back() {
    bool asked = false;
    for (const Action& action : outbox.take()) asked |= holds_alternative<LoadManifest>(action);
    return asked;
  }
  static constexpr std::uint64_t kHash = 77;
  Actions after_step_0;
};

TEST(Leader, ALearnerWithTheAgreedStateServesAtOnceWhenTheLastReplicaDies) {
  LeaderWithALearner scene;
  scene.last_replica_dies(LeaderWithALearner::kHash);
  EXPECT_FALSE(scene.falls_back());
  EXPECT_TRUE(scene.leader->view().serves(PeerId(3), StageId(1)));
}

TEST(Leader, ALearnerWithAnotherStateDoesNotServeAndAllGoBack) {
  LeaderWithALearner scene;
  scene.last_replica_dies(LeaderWithALearner::kHash + 1);
  EXPECT_TRUE(scene.falls_back());
  EXPECT_FALSE(scene.leader->view().serves(PeerId(3), StageId(1)));
}

TEST(Leader, NoticesFromAllStopTheRunAndFromOneItLeaves) {
  LeaderOfThree scene;
  scene.leader->receive(NoticeMessage{"SIGUSR1"}, PeerId(1));
  scene.hearing.heard({2}, 0.5);
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(0.9), 0u) << "notices of the others may follow";
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(1.1), 3u) << "a view in which it leaves its stage";
  LeaderOfThree all;
  for (const std::int32_t id : {0, 1, 2}) all.leader->receive(NoticeMessage{"x"}, PeerId(id));
  all.leader->receive(RecordDurable{1});  // its `leader` event
  EXPECT_EQ(all.sent_when_at<EndMessage>(0), 0u) << "the mark of the end is not durable";
  all.leader->receive(EndDurable{});
  EXPECT_EQ(all.sent_when_at<EndMessage>(0), 2u);
}

TEST(Leader, WhereTheTimeIsOverTheRunStopsAsIfSomebodyHadAsked) {
  RunPlan limited = tiny_plan(2, 20);
  limited.train.max_hours = 0.5;
  limited.stops_at_s = 1;  // the rest was before it was resumed
  LeaderOfThree scene(false, limited);
  scene.leader->receive(RecordDurable{1});  // its `leader` event
  const auto end_at = [&](double at_s) -> std::optional<StoreEnd> {
    scene.now_s = at_s;
    scene.leader->lead();
    for (const Action& action : scene.outbox.take()) {
      if (const auto* end = get_if<StoreEnd>(&action)) return *end;
    }
    return {};
  };
  EXPECT_FALSE(end_at(0.9));
  const auto end = end_at(1.1);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, ExitStatus::stopped);
  EXPECT_EQ(end->why, "train.max_hours = 0.5 are over");
}

TEST(Leader, AStopWhoseCheckpointIsDroppedTwiceSaysWhyAndAsksForNoOther) {
  LeaderWithALearner scene;
  for (const std::int32_t id : {0, 1, 2, 3}) {
    scene.leader->receive(NoticeMessage{"SIGUSR1"}, PeerId(id));
  }
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(scene.sent_when_at<CheckpointMessage>(0), 2u) << time;
    scene.a_part_is_lost();
  }
  const auto end = scene.ends();
  ASSERT_TRUE(end);
  for (const char* words : {"SIGUSR1", "no checkpoint of step 0", "/x/stage-1.h5"}) {
    EXPECT_NE(end->why.find(words), std::string::npos) << end->why;
  }
}

TEST(Leader, ARunWhoseLastCheckpointIsLostTwiceIsNotComplete) {
  LeaderWithALearner scene(tiny_plan(2, 0));
  scene.a_part_is_lost();
  EXPECT_FALSE(scene.ends()) << "its parts are asked for once more";
  scene.a_part_is_lost();
  const auto end = scene.ends();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, ExitStatus::stopped);
  EXPECT_NE(end->why.find("no checkpoint of step 0"), std::string::npos) << end->why;
}

TEST(Leader, DuringAStopWhoeverIsAskedForItsPartHasTheWholePatience) {
  RunPlan plan = tiny_plan(2, 2);
  plan.swarm.notice_s = 3;
  LeaderWithALearner scene(plan);
  const double patience_s = plan.stop_patience_s();
  for (const std::int32_t id : {0, 1, 2, 3}) scene.leader->receive(NoticeMessage{"x"}, PeerId(id));
  EXPECT_EQ(scene.sent_when_at<CheckpointMessage>(0), 2u);
  scene.leader->receive(StageStoredMessage{Step(0), StageId(0), false, {}, {}, "it hangs"},
                        PeerId(0));
  EXPECT_EQ(scene.sent_when_at<CheckpointMessage>(patience_s - 0.1), 2u) << "peers 1 and 2";
  scene.now_s = patience_s + 0.1;
  scene.leader->lead();
  EXPECT_TRUE(dropped(scene.outbox.take()).empty());
  scene.now_s = 2 * patience_s;
  scene.leader->lead();
  EXPECT_EQ(dropped(scene.outbox.take()).size(), 1u);
}

// Peers 0 to 3 as above; all that nobody can reach are silent when the run is asked to stop.
struct StopOfLeader : LeaderWithALearner {
  explicit StopOfLeader(std::int32_t silent, RunPlan of = tiny_plan(2, 2))
      : LeaderWithALearner(std::move(of)) {
    hearing.nobody_can_kill(silent, 0);
    for (const std::int32_t id : {0, 1, 2, 3}) {
      if (id != silent) leader->receive(NoticeMessage{"SIGUSR1"}, PeerId(id));
    }
  }
  // Whom it asks for their parts when it decides at this time.
  std::vector<PeerId> asked_at(double at_s) {
    now_s = at_s;
    leader->lead();
    std::vector<PeerId> peers;
    for (const Action& action : outbox.take()) {
      const auto* send = get_if<Send>(&action);
      if (send != nullptr && holds_alternative<CheckpointMessage>(send->message.body))
        peers.push_back(send->to);
      if (holds_alternative<StoreRecord>(action)) outbox.act(action);  // for ends()
    }
    return peers;
  }
  void stores(std::int32_t peer, std::int32_t stage) {
    leader->receive(StageStoredMessage{Step(0), StageId(stage), true, {}, {kHash}, ""},
                    PeerId(peer));
  }
};

TEST(Leader, AStopDoesNotWaitForAPeerThatNobodyCanKillIfAnotherServesItsStage) {
  StopOfLeader scene(1);
  EXPECT_EQ(scene.asked_at(0), (std::vector{PeerId(0), PeerId(2)}));
  scene.stores(0, 0);
  scene.stores(2, 1);
  scene.leader->receive(CheckpointDurable{Step(0)});
  const auto end = scene.ends();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, ExitStatus::stopped);
  EXPECT_EQ(end->why.find("no checkpoint"), std::string::npos) << end->why;
  EXPECT_NE(end->why.find("peer 1 does not answer"), std::string::npos) << end->why;
  scene.leader->receive(EndDurable{});
  for (const std::int32_t id : {2, 3}) {
    EXPECT_FALSE(scene.leader->over());
    scene.leader->receive(EndHeard{}, PeerId(id));
  }
  EXPECT_TRUE(scene.leader->over()) << "without peer 1";
}

TEST(Leader, AStopAsksAnotherForThePartOfOneThatFallsSilent) {
  LeaderWithALearner all(tiny_plan(2, 2), PeerId(0));  // whose disk is slow
  for (const std::int32_t id : {0, 1, 2, 3}) all.leader->receive(NoticeMessage{"x"}, PeerId(id));
  EXPECT_EQ(all.sent_when_at<CheckpointMessage>(0), 2u) << "peers 1 and 2";
  all.hearing.nobody_can_kill(1, 1);
  EXPECT_EQ(all.sent_when_at<CheckpointMessage>(1), 2u) << "peers 0 and 2";
  EXPECT_EQ(all.sent_when_at<CheckpointMessage>(2), 0u);
}

// Its host may go on meanwhile.
TEST(Leader, AStopWaitsForTheOnlyPeerOfAStageAndThenNamesIt) {
  StopOfLeader scene(2);
  const double patience_s = scene.plan.stop_patience_s();
  EXPECT_EQ(scene.asked_at(0), (std::vector{PeerId(0), PeerId(2)}));
  EXPECT_TRUE(scene.asked_at(patience_s - 0.1).empty());
  EXPECT_TRUE(scene.asked_at(patience_s).empty());
  const auto end = scene.ends();
  ASSERT_TRUE(end);
  for (const char* words : {"SIGUSR1", "no checkpoint of step 0: stage 1", "peer 2 does not answer",
                            "there is no earlier one"}) {
    EXPECT_NE(end->why.find(words), std::string::npos) << end->why;
  }
}

// Peer 1 has not told the state after step 0 when its host is stopped.
TEST(Leader, AStopAgreesWithoutThoseThatNobodyCanKill) {
  LeaderOfThree scene;
  scene.reports(0, 0, {0, 1, 2, 3, 4});
  scene.reports(2, 1, {0, 1, 2, 3, 4});
  scene.leader->lead();
  for (const auto& [peer, stage] : {std::pair{0, 0}, {1, 0}, {2, 1}}) {
    scene.leader->receive(ReducedMessage{Step(0), StageId(stage), 0, {{0.0}, 1, {}}}, PeerId(peer));
  }
  scene.leader->lead();
  for (const std::int32_t id : {0, 2}) {
    ReportMessage hashes;
    hashes.hashes = {{Step(0), StageId(id == 2 ? 1 : 0), {{77}, {}}}};
    scene.leader->receive(hashes, PeerId(id));
    scene.leader->receive(NoticeMessage{"SIGUSR1"}, PeerId(id));
  }
  EXPECT_EQ(scene.sent_when_at<CheckpointMessage>(1.1), 0u);
  scene.hearing.nobody_can_kill(1, 1.1);
  EXPECT_EQ(scene.sent_when_at<CheckpointMessage>(1.1), 2u);
}

TEST(Leader, AStopEndsATableRoundWithoutThoseThatNobodyCanKill) {
  StopOfLeader scene(1);
  scene.leader->lost(PeerId(3), "lost");
  for (const std::int32_t id : {0, 2}) {
    EXPECT_TRUE(scene.asked_at(0).empty());
    TableMessage table;
    table.view = scene.leader->view().number;
    scene.leader->receive(table, PeerId(id));
  }
  EXPECT_EQ(scene.asked_at(0), (std::vector{PeerId(0), PeerId(2)}));
}

// Over slow lines a table may come after the time that a scheduler leaves.
TEST(Leader, AStopWaitsForTablesNoLongerThanForAnythingElse) {
  LeaderWithALearner scene;
  const double patience_s = scene.plan.stop_patience_s();
  for (const std::int32_t id : {0, 1, 2, 3}) scene.leader->receive(NoticeMessage{"x"}, PeerId(id));
  scene.leader->lost(PeerId(3), "lost");
  TableMessage own;
  own.view = scene.leader->view().number;
  scene.leader->receive(own, PeerId(0));
  EXPECT_EQ(scene.sent_when_at<CheckpointMessage>(1), 0u);
  EXPECT_EQ(scene.sent_when_at<CheckpointMessage>(1 + patience_s - 0.1), 0u);
  EXPECT_EQ(scene.sent_when_at<CheckpointMessage>(1 + patience_s), 2u);
}

// What is open is not committed any more: nothing of it is worth a reduction, or another round.
TEST(Leader, AStopBeginsNothingAnew) {
  LeaderOfThree scene(true);
  scene.reports(0, 0, {0, 1, 2, 3, 4});
  for (const std::int32_t id : {0, 1, 2, 3}) scene.leader->receive(NoticeMessage{"x"}, PeerId(id));
  scene.leader->lead();
  scene.reports(2, 1, {0, 1, 2, 3, 4});
  EXPECT_EQ(scene.sent_when_at<SealMessage>(0.1), 0u);
  scene.leader->receive(UnableMessage{{Step(0), Purpose::train, 0}}, PeerId(1));
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(0.1), 0u);
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(1000), 0u);
}

// What of the step after was under way may become whole when the silent peer speaks again.
TEST(Leader, NothingIsCommittedOnceAStopWasAskedForAndOneIsSilent) {
  LeaderOfThree scene;
  scene.reports(0, 0, {0, 1, 2, 3, 4});
  scene.reports(2, 1, {0, 1, 2, 3, 4});
  scene.leader->lead();
  for (const std::int32_t id : {0, 2}) scene.leader->receive(NoticeMessage{"x"}, PeerId(id));
  scene.hearing.nobody_can_kill(1, 1);
  scene.sent_when_at<SealMessage>(1);
  for (const auto& [peer, stage] : {std::pair{0, 0}, {1, 0}, {2, 1}}) {
    scene.leader->receive(ReducedMessage{Step(0), StageId(stage), 0, {{0.0}, 1, {}}}, PeerId(peer));
  }
  EXPECT_EQ(scene.sent_when_at<CommitMessage>(1), 0u);
}

// It may be asked to stop as well, for all that is known.
TEST(Leader, NobodyLeavesWhileAnotherIsSilent) {
  LeaderOfThree scene;
  for (const std::int32_t id : {0, 2}) scene.leader->receive(NoticeMessage{"x"}, PeerId(id));
  EXPECT_EQ(scene.sent_when_at<ViewMessage>(5), 0u);
  scene.hearing.heard({1}, 5);
  EXPECT_GT(scene.sent_when_at<ViewMessage>(5.1), 0u) << "it was heard, and not asked";
}

TEST(Leader, ForItsLastCheckpointADiskThatIsSlowIsAskedAllTheSame) {
  const LeaderWithALearner scene(tiny_plan(2, 0), PeerId(2));
  const auto asks = [](const Action& action) {
    const auto* send = get_if<Send>(&action);
    return send != nullptr && holds_alternative<CheckpointMessage>(send->message.body);
  };
  const Actions& actions = scene.after_step_0;
  EXPECT_EQ(std::count_if(actions.begin(), actions.end(), asks), 2);
}

TEST(Leader, ADamagedCheckpointThatIsPassedOverIsAnEvent) {
  LeaderWithALearner scene;
  scene.leader->receive(CheckpointDamaged{Step(7), "step-7 is cut off"});
  const std::vector<EventRow> events = dropped(scene.outbox.take());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].step, 7);
  EXPECT_NE(events[0].detail.find("step-7 is cut off"), std::string::npos);
}

// Those of a trace that leave everybody alive.
TEST(Leader, FaultsByTheClockAreStoredWhenTheyAreDue) {
  LeaderOfThree scene;
  scene.plan.faults_by_clock = {{0.5, FaultEvent::stop, 1},
                                {0.75, FaultEvent::go_on, 1},
                                {1, FaultEvent::cut, 2},
                                {9, FaultEvent::heal, 2}};
  const auto kinds_at = [&](double at_s) {
    scene.now_s = at_s;
    scene.leader->lead();
    std::vector<std::pair<EventKind, std::int64_t>> kinds;
    for (const Action& action : scene.outbox.take()) {
      const auto* store = get_if<StoreRecord>(&action);
      const auto* event = store == nullptr ? nullptr : std::get_if<EventRow>(&store->row);
      if (event != nullptr) kinds.emplace_back(event->kind, event->peer);
    }
    return kinds;
  };
  using Kinds = std::vector<std::pair<EventKind, std::int64_t>>;
  EXPECT_EQ(kinds_at(0.4), Kinds());
  EXPECT_EQ(kinds_at(0.8), (Kinds{{EventKind::stop, 1}, {EventKind::go_on, 1}}));
  EXPECT_EQ(kinds_at(2), (Kinds{{EventKind::cut, 2}}));
  EXPECT_EQ(kinds_at(3), Kinds());
}

// ---- Static pipelines

// Peers 0, which leads, and 1 are a pipeline, peers 2 and 3 another, peer 4 is a spare; step 0 is
// committed, and all agree on the state after it.
struct LeaderOfPipelines {
  explicit LeaderOfPipelines(bool takes_over = false, bool nothing_was_lost = false) {
    plan.recovers = true;
    plan.swarm.method = Method::one_f_one_b;
    plan.window = kNoWindow;
    plan.torture_only.notices_together_s = 0;
    std::vector<PeerId> workers;
    for (std::int32_t id = 0; id < 4; ++id) workers.emplace_back(id);
    Succession succession;
    succession.term = Term(1);
    succession.view = deal_pipelines(workers, {PeerId(4)}, plan.stage_costs);
    succession.takes_over = takes_over;
    succession.nothing_was_lost = nothing_was_lost;
    succession.at_start.workers = 4;
    succession.at_start.highest_id_at_start = PeerId(4);
    leader = std::make_unique<Leader>(PeerId(0), plan, CommitLog(plan, {}), succession, outbox,
                                      hearing.detector, now_s);
    leader->begin({});
    leader->lead();
    if (!takes_over) step(0);
    outbox.take();
    hearing.heard({1, 2, 3, 4}, 0);
  }
  // What all peers report of a step from its first microbatch to the agreement on its state.
  void step(std::int64_t number) {
    leader->lead();
    for (const std::int32_t peer : {0, 1, 2, 3}) {
      ReportMessage report;
      for (std::int32_t index = peer / 2; index < 5; index += 2) {
        const MicrobatchId id{Step(number), Purpose::train, index};
        report.contributions.push_back({{id, StageId(peer % 2)}, {kernels::Contribution{}}});
        if (peer % 2 == 1) report.losses.push_back({id, 1.0});
      }
      leader->receive(report, PeerId(peer));
    }
    leader->lead();
    for (const std::int32_t peer : {0, 1, 2, 3}) {
      leader->receive(ReducedMessage{Step(number), StageId(peer % 2), 0, {{0.0}, 1, {}}},
                      PeerId(peer));
    }
    leader->lead();
    for (const std::int32_t peer : {0, 1, 2, 3}) {
      ReportMessage hashes;
      hashes.hashes = {{Step(number), StageId(peer % 2), {{77}, {}}}};
      leader->receive(hashes, PeerId(peer));
    }
    leader->lead();
  }
  // The parts of a checkpoint are durable.
  void store_parts(std::int64_t step) {
    for (const std::int32_t stage : {0, 1}) {
      leader->receive(StageStoredMessage{Step(step), StageId(stage), true, {}, {77}, ""},
                      PeerId(stage));
    }
  }
  void tables() {
    const View view = leader->view();
    for (const auto& [peer, stages] : view.members()) {
      TableMessage table;
      table.view = leader->view().number;
      table.incarnation = incarnation;
      leader->receive(table, peer);
    }
  }
  // All go back to this checkpoint.
  void goes_back(const std::optional<RestartPoint>& checkpoint = {}) {
    leader->receive(ManifestLoaded{checkpoint});
    incarnation = Incarnation(incarnation.value + 1);
    outbox.take();
    tables();
  }
  template <class Wanted>
  std::size_t acted() {
    std::size_t count = 0;
    for (const Action& action : outbox.take()) {
      count += holds_alternative<Wanted>(action) ? 1 : 0;
    }
    return count;
  }
  template <class Body>
  std::size_t sent() {
    std::size_t count = 0;
    for (const Action& action : outbox.take()) {
      const auto* send = get_if<Send>(&action);
      count += send != nullptr && holds_alternative<Body>(send->message.body) ? 1 : 0;
    }
    return count;
  }
  std::vector<PeerId> serving(std::int32_t stage) const {
    return leader->view().replicas(StageId(stage));
  }
  RunPlan plan = tiny_plan(2, 9);
  Outbox outbox;
  testing::Hearing hearing{plan, 5};
  double now_s = 0;
  Incarnation incarnation;
  std::unique_ptr<Leader> leader;
};

TEST(LeaderOfPipelines, ADeathInAPipelineSendsAllBackAndASpareTakesThePlace) {
  LeaderOfPipelines scene;
  scene.leader->lost(PeerId(2), "lost");
  scene.tables();
  EXPECT_EQ(scene.acted<LoadManifest>(), 1u);
  scene.goes_back();
  EXPECT_EQ(scene.serving(0), (std::vector{PeerId(0), PeerId(3)}));
  EXPECT_EQ(scene.serving(1), (std::vector{PeerId(1), PeerId(4)}));
  EXPECT_EQ(scene.acted<LoadManifest>(), 0u) << "once";
}

TEST(LeaderOfPipelines, WithoutASpareThePipelineRests) {
  LeaderOfPipelines scene;
  for (const std::int32_t peer : {2, 4}) scene.leader->lost(PeerId(peer), "lost");
  scene.tables();
  scene.goes_back();
  EXPECT_EQ(scene.serving(0), std::vector{PeerId(0)});
  EXPECT_EQ(scene.serving(1), std::vector{PeerId(1)});
  EXPECT_EQ(scene.leader->view().idle(), std::set{PeerId(3)});
}

TEST(LeaderOfPipelines, AFallBackIsNotBegunAnewForWhatItThrowsAway) {
  LeaderOfPipelines scene;
  scene.leader->lead();
  scene.leader->lost(PeerId(2), "lost");
  scene.tables();
  EXPECT_EQ(scene.acted<LoadManifest>(), 1u);
  scene.leader->receive(UnableMessage{{Step(1), Purpose::train, 0}}, PeerId(1));
  EXPECT_EQ(scene.sent<ViewMessage>(), 0u);
  scene.leader->receive(ManifestLoaded{});
  EXPECT_GT(scene.sent<ViewMessage>(), 0u);
}

// Whoever loads a part is the first to read all of it, and the leader reads what it goes back to
// next. Where the leader finds that whole, another checkpoint would help nobody.
TEST(LeaderOfPipelines, WhereAPartThatIsLoadedIsDamagedAllGoBackToWhatTheLeaderHasRead) {
  LeaderOfPipelines scene;
  std::optional<StoreEnd> end;
  const auto asked_for_manifests = [&] {
    std::vector<bool> proves;
    for (const Action& action : scene.outbox.take()) {
      if (const auto* load = get_if<LoadManifest>(&action)) proves.push_back(load->proves);
      if (const auto* store = get_if<StoreEnd>(&action)) end = *store;
    }
    return proves;
  };
  RestartPoint checkpoint;
  checkpoint.state.step = 1;
  checkpoint.state.exponents = {{0, 0}};
  scene.leader->lost(PeerId(3), "lost");
  scene.tables();
  EXPECT_EQ(asked_for_manifests(), std::vector{false});
  scene.goes_back(checkpoint);
  const PeerId loads = scene.serving(1).front();
  const auto damaged = [&scene] {
    return DamagedMessage{StageId(1), scene.incarnation, "stage-1.h5 is damaged"};
  };
  const DamagedMessage first = damaged();
  scene.leader->receive(first, loads);
  scene.leader->receive(first, loads);  // it says so in each view
  scene.tables();
  EXPECT_EQ(asked_for_manifests(), std::vector{true});
  scene.goes_back(checkpoint);
  scene.leader->receive(first, loads);
  asked_for_manifests();
  EXPECT_FALSE(end) << "it has not heard yet that all have gone back once more";
  scene.leader->receive(damaged(), loads);
  asked_for_manifests();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, ExitStatus::stopped);
  EXPECT_NE(end->why.find("stage-1.h5 is damaged"), std::string::npos) << end->why;
}

TEST(LeaderOfPipelines, TheDeathOfASpareSendsNobodyBack) {
  LeaderOfPipelines scene;
  scene.leader->lost(PeerId(4), "lost");
  scene.tables();
  EXPECT_EQ(scene.acted<LoadManifest>(), 0u);
}

TEST(LeaderOfPipelines, WhoComesIsASpareUntilAllGoBack) {
  LeaderOfPipelines scene;
  for (const std::int32_t peer : {5, 6})
    scene.leader->receive(JoinMessage{PeerId(peer)}, PeerId(peer));
  scene.tables();
  scene.leader->lead();
  EXPECT_TRUE(scene.leader->view().learners().empty());
  scene.leader->lost(PeerId(3), "lost");
  scene.tables();
  scene.goes_back();
  EXPECT_EQ(scene.serving(0).size(), 3u) << "two are wanted beside those of the start";
}

TEST(LeaderOfPipelines, WhatADeadLeaderKnewOfDeathsIsNotKnownSoAllGoBack) {
  LeaderOfPipelines scene(true);
  scene.tables();
  EXPECT_EQ(scene.acted<LoadManifest>(), 1u);
  LeaderOfPipelines orderly(true, true);
  orderly.tables();
  EXPECT_EQ(orderly.acted<LoadManifest>(), 0u) << "it left, and served nothing";
}

TEST(LeaderOfPipelines, WhoLeavesIsWaitedForUntilTheStepIsWrittenThenAllGoOnWithoutIt) {
  LeaderOfPipelines scene;
  scene.leader->receive(NoticeMessage{"asked to leave"}, PeerId(1));
  scene.step(1);  // which was open
  EXPECT_EQ(scene.sent<CheckpointMessage>(), 2u);
  scene.leader->lead();
  EXPECT_EQ(scene.sent<IssueMessage>(), 0u) << "no step is begun";
  scene.store_parts(1);
  scene.leader->receive(CheckpointDurable{Step(1)});
  scene.leader->lead();
  scene.tables();
  EXPECT_EQ(scene.acted<LoadManifest>(), 1u);
  RestartPoint checkpoint;
  checkpoint.state.step = 1;
  checkpoint.state.exponents = {{0, 0}};
  scene.goes_back(checkpoint);
  EXPECT_EQ(scene.serving(0), (std::vector{PeerId(0), PeerId(3)}));
  EXPECT_EQ(scene.serving(1), (std::vector{PeerId(2), PeerId(4)}));
  scene.outbox.take();
  scene.leader->lead();
  EXPECT_EQ(scene.sent<ReleaseMessage>(), 1u);
  EXPECT_FALSE(scene.leader->view().contains(PeerId(1)));
}

// Else they would pile up: folders beyond what is kept, and a newest complete one that is ever
// older.
TEST(LeaderOfPipelines, WhereCheckpointsTakeLongerThanTheStepsBetweenTheNextStepWaits) {
  LeaderOfPipelines scene;
  scene.plan.checkpoint_every = 1;
  scene.plan.checkpoints_kept = 2;
  for (const std::int64_t step : {1, 2}) {
    scene.step(step);
    EXPECT_EQ(scene.sent<CheckpointMessage>(), 2u) << step;
  }
  scene.step(3);
  EXPECT_EQ(scene.sent<CheckpointMessage>(), 0u);
  scene.step(4);
  EXPECT_EQ(scene.sent<CommitMessage>(), 0u) << "nobody would hold the state after step 3 any more";
  scene.now_s = 1000;
  scene.leader->lead();
  EXPECT_EQ(scene.sent<ViewMessage>(), 0u) << "no new plan would help";
  scene.store_parts(1);
  scene.leader->receive(CheckpointDurable{Step(1)});
  scene.leader->lead();
  std::size_t asked = 0, committed = 0;
  for (const Action& action : scene.outbox.take()) {
    const auto* send = get_if<Send>(&action);
    if (send == nullptr) continue;
    const auto* order = get_if<CheckpointMessage>(&send->message.body);
    asked += order != nullptr && order->step == Step(3) ? 1 : 0;
    committed += holds_alternative<CommitMessage>(send->message.body) ? 1 : 0;
  }
  EXPECT_EQ(asked, 2u);
  EXPECT_EQ(committed, 5u);
}

// What storage could not find of a checkpoint, on its own host.
TEST(LeaderOfPipelines, ACheckpointOfWhichAPartIsNotFoundIsDroppedAndTheRunGoesOn) {
  LeaderOfPipelines scene;
  scene.plan.checkpoint_every = 1;
  scene.leader->receive(CheckpointDropped{Step(9), 0, "nobody waits for it"});
  EXPECT_EQ(dropped(scene.outbox.take()).size(), 0u);

  scene.step(1);
  EXPECT_EQ(scene.sent<CheckpointMessage>(), 2u);
  scene.store_parts(1);
  scene.leader->receive(CheckpointDropped{Step(1), 1, "cannot read /x/stage-1.h5"});
  const std::vector<EventRow> events = dropped(scene.outbox.take());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].peer, 1);
  EXPECT_EQ(events[0].stage, 1);
  EXPECT_EQ(events[0].step, 1);
  for (const char* words : {"peer 1", "/x/stage-1.h5", "there is no earlier one"}) {
    EXPECT_NE(events[0].detail.find(words), std::string::npos) << events[0].detail;
  }
  scene.leader->lead();
  EXPECT_EQ(scene.sent<CheckpointMessage>(), 0u) << "the next one is due a step later";
  EXPECT_EQ(scene.leader->waiting_for().find("checkpoint"), std::string::npos);
  scene.step(2);
  EXPECT_EQ(scene.sent<CheckpointMessage>(), 2u);
}

TEST(LeaderOfPipelines, WhoLeavesIsNotHeldUpByACheckpointThatIsDropped) {
  LeaderOfPipelines scene;
  scene.leader->receive(NoticeMessage{"asked to leave"}, PeerId(1));
  scene.step(1);
  scene.store_parts(1);
  scene.leader->receive(CheckpointDropped{Step(1), 0, "cannot read it"});
  scene.leader->lead();
  scene.tables();
  EXPECT_EQ(scene.acted<LoadManifest>(), 1u) << "all go back to an earlier one";
}

// Step 0 is committed, and step 1 complete, but for what is said of collectives.
struct LeaderInStepOne : LeaderOfThree {
  LeaderInStepOne() : LeaderOfThree(false, with_collectives()) {
    reports(0, 0, {0, 1, 2, 3, 4});
    reports(2, 1, {0, 1, 2, 3, 4});
    leader->lead();
    for (const auto& [peer, stage] : kServe) {
      leader->receive(ReducedMessage{Step(0), StageId(stage), 0, {}}, PeerId(peer));
    }
    leader->lead();
    for (const auto& [peer, stage] : kServe) {
      ReportMessage report;
      report.hashes.push_back({Step(0), StageId(stage), {{1}, {}}});
      leader->receive(report, PeerId(peer));
    }
    leader->lead();
    outbox.take();
  }
  static RunPlan with_collectives() {
    RunPlan plan = tiny_plan(2, 2);
    plan.swarm.collectives = Collectives::nccl;
    return plan;
  }
  void says(std::int32_t peer, CollectiveNews news, const SealId& seal = {}) {
    leader->receive(CollectiveWord{{Term(1), 1}, StageId(0), news, Step(1), seal, "why"},
                    PeerId(peer));
  }
  // What peer 1 hears when the leader decides.
  template <class Body>
  std::vector<Body> told() {
    leader->lead();
    std::vector<Body> bodies;
    for (const Action& action : outbox.take()) {
      const auto* send = get_if<Send>(&action);
      if (send == nullptr || send->to != PeerId(1)) continue;
      if (const auto* body = get_if<Body>(&send->message.body)) bodies.push_back(*body);
    }
    return bodies;
  }
  std::optional<StageSeal> seal() {
    for (const std::int32_t stage : {0, 1}) {
      ReportMessage report;
      for (const std::int32_t index : {0, 1, 2, 3, 4}) {
        const MicrobatchId id{Step(1), Purpose::train, index};
        report.contributions.push_back({{id, StageId(stage)}, {kernels::Contribution{}}});
        if (stage == 1) report.losses.push_back({id, 1.0});
      }
      leader->receive(report, PeerId(2 * stage));
    }
    const auto seals = told<SealMessage>();
    return seals.size() == 1 ? std::optional(seals[0].stages.at(0)) : std::nullopt;
  }
  static constexpr std::pair<std::int32_t, std::int32_t> kServe[] = {{0, 0}, {1, 0}, {2, 1}};
};

TEST(LeaderOfCollectives, LetsReplicasEnterWhenAllHaveFrozen) {
  LeaderInStepOne scene;
  for (const std::int32_t peer : {0, 1}) scene.says(peer, CollectiveNews::ready);
  const auto seal = scene.seal();
  ASSERT_TRUE(seal);
  EXPECT_EQ(seal->collective, (ViewNumber{Term(1), 1}));
  scene.says(1, CollectiveNews::frozen, seal->seal);
  EXPECT_TRUE(scene.told<EnterMessage>().empty());
  scene.says(0, CollectiveNews::frozen, seal->seal);
  ASSERT_EQ(scene.told<EnterMessage>().size(), 1u);
}

TEST(LeaderOfCollectives, SealsPointToPointWhereOneIsNotReady) {
  LeaderInStepOne scene;
  scene.says(1, CollectiveNews::ready);
  const auto seal = scene.seal();
  ASSERT_TRUE(seal);
  EXPECT_FALSE(seal->collective);
}

TEST(LeaderOfCollectives, TheFirstForWhichItIsOverVoidsTheSealForAll) {
  LeaderInStepOne scene;
  for (const std::int32_t peer : {0, 1}) scene.says(peer, CollectiveNews::ready);
  const auto seal = scene.seal();
  ASSERT_TRUE(seal);
  scene.says(0, CollectiveNews::over, seal->seal);
  const auto again = scene.told<SealMessage>();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_FALSE(again[0].stages.at(0).collective);
  EXPECT_EQ(again[0].stages.at(0).attempt, 1);
  scene.says(1, CollectiveNews::over, seal->seal);
  EXPECT_TRUE(scene.told<SealMessage>().empty()) << "of the seal that is void";
  for (const std::int32_t peer : {0, 1}) scene.says(peer, CollectiveNews::frozen, seal->seal);
  EXPECT_TRUE(scene.told<EnterMessage>().empty());
}

}  // namespace
}  // namespace swarmpi::leader_test
