// What one peer does with one microbatch, message by message.

#include "protocol/replica_host.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "core/flat_set.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/process_port.hpp"
#include "protocol/messages/reports.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/table_rows.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/views.hpp"
#include "protocol/peer.hpp"
#include "protocol/step/restart_point.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::replica_host_test {
namespace {

using testing::tiny_plan;

// Peer 2, which serves stage 1. Peers 1 and 5 serve stage 0, peers 3 and 4 stage 2; peer 0 leads.
class MiddlePeer {
 public:
  explicit MiddlePeer(const RunPlan& plan = MiddlePeer::plan())
      : peer_(PeerId(2), plan, kMembership, {}) {
    view_.add(PeerId(0));
    for (const std::int32_t id : {1, 5}) view_.serve(PeerId(id), StageId(0));
    view_.serve(PeerId(2), StageId(1));
    for (const std::int32_t id : {3, 4}) view_.serve(PeerId(id), StageId(2));
    peer_.handle(Started{}, 0);
    next_view();
  }
  Actions dies(std::int32_t peer) {
    view_.remove(PeerId(peer));
    return next_view();
  }
  Actions leaves_its_stage(std::int32_t peer) {
    view_.take_from(PeerId(peer), *view_.members().at(PeerId(peer)).begin());
    return next_view();
  }
  Actions hears(std::int32_t from, MessageBody body) {
    return peer_.handle(MessageArrived{PeerId(from), {{}, view_.number, std::move(body)}}, now_s);
  }
  Actions forward(std::int32_t from, std::shared_ptr<const Path> path = nullptr) {
    return hears(from, ForwardMessage{kWork, payload(), std::move(path)});
  }
  // Of the first step after the one that all went back to.
  Actions forward_of(Incarnation incarnation, std::int32_t from) {
    const WorkId work{{Step(1), Purpose::train, 0}, StageId(1)};
    return peer_.handle(
        MessageArrived{PeerId(from),
                       {incarnation, view_.number, ForwardMessage{work, payload(), nullptr}}},
        now_s);
  }
  Actions forward_again(std::int32_t from, std::int32_t index) {
    return hears(from, ForwardMessage{numbered(index), payload(), nullptr});
  }
  Actions next_forward_done(std::int32_t index) {
    return peer_.handle(JobFinished{ForwardResult{numbered(index), payload(), 0}, 0}, now_s);
  }
  Actions gradient(std::int32_t from, std::int32_t index = 0) {
    return hears(from, BackwardMessage{numbered(index), payload()});
  }
  Actions forward_done() {
    return peer_.handle(JobFinished{ForwardResult{kWork, payload(), 0}, 0}, now_s);
  }
  Actions backward_done(std::int32_t index = 0, std::int16_t exponent = -3) {
    return peer_.handle(
        JobFinished{BackwardResult{numbered(index), payload(), 0, {{exponent, false, false}}}, 0},
        now_s);
  }
  /// Forward passes of so many microbatches, and their gradients: their backward passes are due.
  void has_backward_passes(std::int32_t microbatches) {
    for (std::int32_t i = 0; i < microbatches; ++i) {
      forward_again(1, i);
      next_forward_done(i);
    }
    for (std::int32_t i = 0; i < microbatches; ++i) gradient(3, i);
  }
  // Its stage is to be written as of the step before the first.
  Actions writes() { return hears(0, CheckpointMessage{Step(-1), StageId(1)}); }
  Actions written() { return finishes(StageStored{Step(-1), StageId(1), {}, {}}); }
  // It learns stage 0 instead of serving stage 1.
  Actions learns_another(std::optional<std::int64_t> budget_bytes = {}) {
    if (budget_bytes) view_.set_budget(PeerId(2), *budget_bytes);
    view_.take_from(PeerId(2), StageId(1));
    view_.learn(PeerId(2), StageId(0));
    return next_view();
  }
  Actions may_take(std::int64_t budget_bytes) {
    view_.set_budget(PeerId(2), budget_bytes);
    return next_view();
  }
  // All go back, and it is to load its stage.
  Actions goes_back(std::int64_t incarnation) {
    auto restart = std::make_shared<RestartPoint>();
    restart->state.incarnation = incarnation;
    restart->state.step = 0;
    view_.number = {Term(1), view_.number.number + 1};
    return peer_.handle(MessageArrived{PeerId(0),
                                       {Incarnation(incarnation), view_.number,
                                        ViewMessage{share(view_), std::move(restart)}}},
                        now_s);
  }
  Actions sees_another_view(std::int64_t incarnation) {
    view_.number = {Term(1), view_.number.number + 1};
    return peer_.handle(MessageArrived{PeerId(0),
                                       {Incarnation(incarnation), view_.number,
                                        ViewMessage{share(view_), nullptr}}},
                        now_s);
  }
  Actions finishes(const Event& event) { return peer_.handle(event, now_s); }
  std::shared_ptr<const Path> path() const {
    auto path = std::make_shared<Path>();
    path->planned_in = view_.number;
    path->holders[StageId(1)] = PeerId(2);
    path->last = StageId(2);
    return path;
  }
  static RunPlan plan() {
    RunPlan plan = tiny_plan(3, 1);
    plan.recovers = true;
    plan.swarm.rebalance = Rebalance::paper;
    return plan;
  }
  double now_s = 1;

 private:
  static constexpr WorkId kWork{{Step(0), Purpose::train, 0}, StageId(1)};
  inline static const InitialMembership kMembership{
      {PeerId(0), PeerId(1), PeerId(2), PeerId(3), PeerId(4), PeerId(5)}, {}, Term(1)};

  static WorkId numbered(std::int32_t index) {
    return {{Step(0), Purpose::train, index}, StageId(1)};
  }
  static PayloadRef payload() { return std::make_shared<Payload>(8); }
  Actions next_view() {
    view_.number = {Term(1), view_.number.number + 1};
    return hears(0, ViewMessage{share(view_), nullptr});
  }

  Peer peer_;
  View view_;
};

template <class Body>
std::vector<PeerId> receivers(const Actions& actions) {
  std::vector<PeerId> peers;
  for (const Action& action : actions) {
    const auto* send = get_if<Send>(&action);
    if (send != nullptr && holds_alternative<Body>(send->message.body)) {
      peers.push_back(send->to);
    }
  }
  return peers;
}

template <class Wanted>
bool starts(const Actions& actions) {
  return std::any_of(actions.begin(), actions.end(), [](const Action& action) {
    const auto* start = get_if<StartJob>(&action);
    return start != nullptr && holds_alternative<Wanted>(start->job);
  });
}

// View 2 comes before the seal of view 1 is needed: of three who had a share, one has left the
// stage, and one has come who has none.
TEST(ReplicaHost, ReducesWithTheReplicasOfTheViewThatWasSealed) {
  const RunPlan plan = tiny_plan(1, 2);
  Outbox outbox;
  const double time_s = 0;
  ReplicaHost host(PeerId(0), plan, {}, outbox, time_s, time_s);
  const std::set<StageId> stage{StageId(0)};
  host.adopt(
      share({{Term(1), 1}, {{PeerId(0), stage}, {PeerId(1), stage}, {PeerId(2), stage}}, {}, {}}));
  host.adopt(share({{Term(1), 2},
                    {{PeerId(0), stage}, {PeerId(1), stage}, {PeerId(2), {}}, {PeerId(3), stage}},
                    {},
                    {}}));
  SealMessage message{Step(0), {}, false, std::make_shared<const StepFacts>()};
  StageSeal& seal = message.stages.emplace_back();
  seal.stage = StageId(0);
  seal.seal = {{}, Term(1), 1};
  seal.replicas = {PeerId(0), PeerId(1), PeerId(2)};
  seal.chunk_replicas = 3;
  host.receive(message, PeerId(0));
  EXPECT_EQ(host.awaited(), (FlatSet{PeerId(0), PeerId(1), PeerId(2)}));
}

TEST(ReplicaHost, PassesAMicrobatchOnAndItsGradientBack) {
  MiddlePeer middle;
  EXPECT_TRUE(starts<ForwardJob>(middle.forward(1)));
  EXPECT_EQ(receivers<ForwardMessage>(middle.forward_done()).size(), 1u);
  EXPECT_TRUE(starts<BackwardJob>(middle.gradient(3)));
  EXPECT_EQ(receivers<BackwardMessage>(middle.backward_done()), std::vector{PeerId(1)});
}

// Its stage takes all that the peer may take.
TEST(ReplicaHost, WhatIsKeptApartNeedsNoRoomBesideItsStage) {
  for (const bool apart : {false, true}) {
    RunPlan plan = MiddlePeer::plan();
    plan.needs.stages.assign(3, {100, 100});
    plan.kept_bytes = 50;
    plan.kept_apart = apart;
    MiddlePeer middle(plan);
    middle.may_take(100);
    middle.forward(1);
    middle.forward_done();
    std::vector<bool> kept;
    for (const Action& action : middle.dies(4)) {
      const auto* send = get_if<Send>(&action);
      const auto* table = send == nullptr ? nullptr : get_if<TableMessage>(&send->message.body);
      if (table == nullptr) continue;
      for (const WorkRow& work : table->works) kept.push_back(work.keeps_output);
    }
    EXPECT_EQ(kept, std::vector{apart});
  }
}

const ReportMessage* report_in(const Actions& actions) {
  for (const Action& action : actions) {
    const auto* send = get_if<Send>(&action);
    const auto* report = send == nullptr ? nullptr : get_if<ReportMessage>(&send->message.body);
    if (report != nullptr) return report;
  }
  return nullptr;
}

TEST(ReplicaHost, ReportsOfAnInnerStageWaitWhilePassesGoOn) {
  MiddlePeer peer;
  peer.has_backward_passes(3);
  EXPECT_TRUE(report_in(peer.backward_done(0))) << "the first in a view waits for nothing";
  EXPECT_FALSE(report_in(peer.backward_done(1)));
  const Actions last = peer.backward_done(2);
  ASSERT_TRUE(report_in(last)) << "nothing is left to do";
  EXPECT_EQ(report_in(last)->contributions.size(), 2u);
}

TEST(ReplicaHost, AReportWaitsNoLongerThanAHeartbeatTakes) {
  MiddlePeer peer;
  peer.has_backward_passes(4);
  peer.backward_done(0);
  EXPECT_FALSE(report_in(peer.backward_done(1)));
  peer.now_s += 1.01 * MiddlePeer::plan().swarm.heartbeat_s;
  const Actions later = peer.backward_done(2);
  ASSERT_TRUE(report_in(later));
  EXPECT_EQ(report_in(later)->contributions.size(), 2u);
}

TEST(ReplicaHost, AReportDoesNotWaitOverAChangeOfViews) {
  MiddlePeer peer;
  peer.has_backward_passes(3);
  peer.backward_done(0);
  EXPECT_FALSE(report_in(peer.backward_done(1)));
  EXPECT_TRUE(report_in(peer.dies(4)));
}

TEST(ReplicaHost, ExponentsAreToldWhereTheyAreNews) {
  MiddlePeer peer;
  peer.has_backward_passes(4);
  peer.backward_done(0, -3);
  peer.backward_done(1, -5);
  peer.backward_done(2, -3);
  const Actions last = peer.backward_done(3, -2);
  ASSERT_TRUE(report_in(last));
  const std::vector<ContributionFact>& told = report_in(last)->contributions;
  ASSERT_EQ(told.size(), 3u);
  EXPECT_TRUE(told[0].tensors.empty());
  EXPECT_TRUE(told[1].tensors.empty());
  ASSERT_EQ(told[2].tensors.size(), 1u);
  EXPECT_EQ(told[2].tensors[0].exponent, -2);
}

// While its one forward pass runs, a second and a third microbatch wait.
TEST(ReplicaHost, WhatWaitsIsToldWithTheNextReport) {
  const auto loads = [](const Actions& actions) {
    std::vector<LoadFact> told;
    for (const Action& action : actions) {
      const auto* send = get_if<Send>(&action);
      const auto* report = send == nullptr ? nullptr : get_if<ReportMessage>(&send->message.body);
      if (report != nullptr) told.insert(told.end(), report->loads.begin(), report->loads.end());
    }
    return told;
  };
  MiddlePeer peer;
  peer.forward(1);
  peer.forward_again(1, 1);
  peer.forward_again(1, 2);
  peer.now_s = 1.2;
  EXPECT_TRUE(loads(peer.forward_done()).empty()) << "no report is sent for loads alone";
  peer.now_s = 1.3;
  peer.gradient(3);
  peer.now_s = 1.4;
  peer.next_forward_done(1);
  peer.now_s = 1.6;
  const std::vector<LoadFact> told = loads(peer.backward_done());
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].stage, StageId(1));
  // Two passes for 0.2 s, one for 0.1 s, it and the backward pass for 0.1 s, one for 0.2 s.
  EXPECT_DOUBLE_EQ(told[0].waited_s, 2 * 0.2 + 0.1 + 2 * 0.1 + 0.2);
}

// The peer had no such microbatch in its table, so the leader has asked another for it.
TEST(ReplicaHost, AMicrobatchFromAPeerThatHasLeftItsStageIsRefused) {
  MiddlePeer middle;
  middle.leaves_its_stage(5);
  EXPECT_FALSE(starts<ForwardJob>(middle.forward(5)));
  EXPECT_TRUE(starts<ForwardJob>(middle.forward(1)));
}

TEST(ReplicaHost, WhereMemoryIsBoundedWhatWasLeftIsFreedBeforeAnythingIsTaken) {
  MiddlePeer rich;
  rich.writes();
  EXPECT_TRUE(starts<PrepareJob>(rich.learns_another()));
  MiddlePeer tight;
  tight.writes();
  EXPECT_FALSE(starts<PrepareJob>(tight.learns_another(9))) << "its old stage is being written";
  EXPECT_TRUE(starts<DropJob>(tight.written()));
  EXPECT_TRUE(starts<PrepareJob>(tight.finishes(JobFinished{DropResult{StageId(1)}, 0})));
}

TEST(ReplicaHost, EachLeaderIsToldThatThereIsNoRoom) {
  MiddlePeer peer;
  ASSERT_TRUE(starts<DropJob>(peer.learns_another()));
  ASSERT_TRUE(starts<PrepareJob>(peer.finishes(JobFinished{DropResult{StageId(1)}, 0})));
  const Actions told = peer.finishes(JobFinished{PrepareResult{StageId(0), false}, 0});
  EXPECT_EQ(receivers<NoRoomMessage>(told), std::vector{PeerId(0)});
  EXPECT_TRUE(receivers<FetchMessage>(told).empty());
  EXPECT_EQ(receivers<NoRoomMessage>(peer.dies(5)), std::vector{PeerId(0)});
}

TEST(ReplicaHost, EachLeaderIsToldWhatCannotBeLoaded) {
  MiddlePeer peer;
  const Actions loads = peer.goes_back(1);
  ASSERT_TRUE(std::any_of(loads.begin(), loads.end(), [](const Action& action) {
    return holds_alternative<LoadStage>(action);
  }));
  const StageLoaded damaged{Incarnation(1), StageId(1), true, "stage-1.h5 is damaged"};
  EXPECT_EQ(receivers<DamagedMessage>(peer.finishes(damaged)), std::vector{PeerId(0)});
  EXPECT_EQ(receivers<DamagedMessage>(peer.sees_another_view(1)), std::vector{PeerId(0)});
  const StageLoaded too_late{Incarnation(1), StageId(1), true, "stage-1.h5 is damaged"};
  peer.goes_back(2);
  EXPECT_TRUE(receivers<DamagedMessage>(peer.finishes(too_late)).empty());
}

TEST(ReplicaHost, WhatWasSentBeforeAllWentBackIsDroppedThoughItComesLate) {
  const auto begins_after_loading = [](std::int64_t incarnation) {
    MiddlePeer peer;
    peer.goes_back(1);
    peer.forward_of(Incarnation(incarnation), 1);
    return starts<ForwardJob>(peer.finishes(StageLoaded{Incarnation(1), StageId(1)}));
  };
  EXPECT_FALSE(begins_after_loading(0));
  EXPECT_TRUE(begins_after_loading(1));
}

// Peer 3, which has the output, dies during this peer's backward pass. Peer 1, which asks for the
// output again, dies before the gradient is there. Peer 5, which asks next, must get the gradient,
// though the output is still due.
TEST(ReplicaHost, AnUndeliveredGradientGoesToTheNextPeerThatAsksThoughTheOutputIsDue) {
  MiddlePeer middle;
  middle.forward(1);
  middle.forward_done();
  EXPECT_TRUE(starts<BackwardJob>(middle.gradient(3)));
  middle.dies(3);
  middle.forward(1, middle.path());
  middle.dies(1);
  const Actions done = middle.backward_done();
  EXPECT_TRUE(receivers<BackwardMessage>(done).empty());
  EXPECT_TRUE(starts<ForwardJob>(done));
  EXPECT_EQ(receivers<BackwardMessage>(middle.forward(5, middle.path())), std::vector{PeerId(5)});
}

}  // namespace
}  // namespace swarmpi::replica_host_test
