#include "runtime/peer_loop.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/reduction_jobs.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/term_port.hpp"
#include "protocol/messages/transport_port.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/record_observer.hpp"
#include "transport/loopback.hpp"

namespace swarmpi::peer_loop_test {
namespace {

class StandingClock final : public Clock {
 public:
  double now_s() const override { return 1; }
};

// Answers every job at once, as if it took no time.
class InstantCompute final : public Compute {
 public:
  explicit InstantCompute(Inbox& inbox) : inbox_(inbox) {}
  void start(Job job) override {
    if (const auto* backward = get_if<BackwardJob>(&job)) {
      inbox_.post(
          JobFinished{BackwardResult{backward->work, nullptr, 2.0, {{-3, false, false}}}, 0});
    } else if (const auto* reduce = get_if<ReduceJob>(&job)) {
      const Cover all = Cover::of_step(reduce->step, 2);
      inbox_.post(JobFinished{
          ReduceResult{reduce->seal, reduce->stage, reduce->chunk, all, {1.0}, nullptr, 0}, 0});
    } else if (const auto* apply = get_if<ApplyJob>(&job)) {
      inbox_.post(
          JobFinished{ApplyResult{apply->record->step, apply->stage, {{5}, {}}, {}, {}}, 0});
    }
  }

 private:
  Inbox& inbox_;
};

// The rows of /steps that are durable.
class StepRows final : public RecordObserver {
 public:
  void stored(double, const StoreRecord& record) override {
    if (const auto* row = std::get_if<StepRow>(&record.row)) all.push_back(*row);
  }
  std::vector<StepRow> all;
};

struct Scene {
  Scene() {
    plan.train.steps = 3;
    plan.train.microbatches = 2;
    plan.checkpoint_every = -1;
    plan.tokens_per_microbatch = 4;
    plan.tensor_names = {"only"};
    plan.tensor_elements = {1};
    plan.stage_tensors = {{0}};
    plan.stage_costs = {1};
  }
  Status run() {
    Peer peer(PeerId(0), plan, {{PeerId(0)}, {}, Term(1)}, {});
    PeerLoop loop(peer, {clock, transport, compute, storage}, inbox);
    loop.watch(rows);
    return loop.run();
  }
  RunPlan plan;
  StandingClock clock;
  Inbox inbox;
  LoopbackTransport transport{PeerId(0)};
  InstantCompute compute{inbox};
  NoStorage storage{inbox};
  StepRows rows;
};

class RunningClock final : public Clock {
 public:
  double now_s() const override { return now_s_ += 0.01; }

 private:
  mutable double now_s_ = 0;
};

// Another peer that sends heartbeats without a pause, until it is lost.
class TalkativeTransport : public Transport {
 public:
  void send(PeerId, Message message) override {
    heartbeats += holds_alternative<HeartbeatMessage>(message.body) ? 1 : 0;
  }
  std::optional<Event> receive() override {
    if (++received_ > 1000) return PeerLost{PeerId(1)};
    return MessageArrived{PeerId(1), Message{{}, {}, HeartbeatMessage{}}};
  }
  void wait(int, double) override {}
  void kill(PeerId) override {}
  void spawn() override {}
  bool flush(double) override { return true; }
  int heartbeats = 0;

 private:
  int received_ = 0;
};

TEST(PeerLoop, SendsHeartbeatsWhileMessagesNeverCease) {
  Scene scene;
  RunningClock clock;
  TalkativeTransport transport;
  Peer peer(PeerId(0), scene.plan, {{PeerId(0), PeerId(1)}, {}, Term(1)}, {});
  PeerLoop loop(peer, {clock, transport, scene.compute, scene.storage}, scene.inbox);
  EXPECT_EQ(loop.run().code(), ExitStatus::stopped);
  EXPECT_GT(transport.heartbeats, 20);
}

// Messages never cease, nor does what the threads of the peer have to say, so that it waits.
TEST(PeerLoop, SaysInItsHeartbeatsHowFarItIs) {
  class Listener final : public TalkativeTransport {
   public:
    void send(PeerId to, Message message) override {
      if (const auto* beat = get_if<HeartbeatMessage>(&message.body)) last = *beat;
      TalkativeTransport::send(to, std::move(message));
    }
    HeartbeatMessage last;
  };
  Scene scene;
  RunningClock clock;
  Listener transport;
  for (int i = 0; i < 3000; ++i) scene.inbox.post(ProbeStored{});
  Peer peer(PeerId(0), scene.plan, {{PeerId(0), PeerId(1)}, {}, Term(1)}, {});
  PeerLoop loop(peer, {clock, transport, scene.compute, scene.storage}, scene.inbox);
  EXPECT_EQ(loop.run().code(), ExitStatus::stopped);
  EXPECT_GT(transport.last.handled, 900);
  EXPECT_GT(transport.last.oldest_waits_s, 0);
}

TEST(PeerLoop, HearsItsOwnThreadsWhileMessagesNeverCease) {
  Scene scene;
  RunningClock clock;
  TalkativeTransport transport;
  scene.inbox.post(StorageFailed{Status::failed("the disk is full")});
  Peer peer(PeerId(0), scene.plan, {{PeerId(0), PeerId(1)}, {}, Term(1)}, {});
  PeerLoop loop(peer, {clock, transport, scene.compute, scene.storage}, scene.inbox);
  EXPECT_EQ(loop.run().message(), "the disk is full");
}

TEST(PeerLoop, ReceivesWhereTheTimerIsAlwaysDue) {
  Scene scene;
  scene.plan.swarm.heartbeat_s = 1e-6;
  RunningClock clock;
  TalkativeTransport transport;
  Peer peer(PeerId(0), scene.plan, {{PeerId(0), PeerId(1)}, {}, Term(1)}, {});
  PeerLoop loop(peer, {clock, transport, scene.compute, scene.storage}, scene.inbox);
  EXPECT_EQ(loop.run().code(), ExitStatus::stopped);
}

TEST(PeerLoop, RunsAPeerToItsEndAndObservesDurableRows) {
  Scene scene;
  const Status status = scene.run();
  EXPECT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(scene.rows.all.size(), 4u);
  EXPECT_EQ(scene.rows.all[3].loss, 0.5);  // 2 microbatches of 2 nats over 8 tokens
}

// Ends the peer when told to.
class EndingTransport final : public Transport {
 public:
  void send(PeerId to, Message message) override { below_.send(to, std::move(message)); }
  std::optional<Event> receive() override { return below_.receive(); }
  void wait(int wake_descriptor, double timeout_s) override {
    below_.wait(wake_descriptor, timeout_s);
  }
  void kill(PeerId) override {}
  void spawn() override {}
  bool flush(double) override { return true; }
  bool ended() const override { return ends; }
  bool ends = false;

 private:
  LoopbackTransport below_{PeerId(0)};
};

// Not even those of the event that it was handling when it was ended.
TEST(PeerLoop, APeerThatIsEndedExecutesNoFurtherAction) {
  class EndsAtThirdJob final : public Observer {
   public:
    explicit EndsAtThirdJob(EndingTransport& transport) : transport_(transport) {}
    void happened(double, PeerId, const Event&) override { EXPECT_FALSE(transport_.ends); }
    void asked(double, PeerId, const Action& action) override {
      EXPECT_FALSE(transport_.ends);
      if (holds_alternative<StartJob>(action) && ++jobs == 3) transport_.ends = true;
    }
    void handled(double, PeerId) override { EXPECT_FALSE(transport_.ends); }
    void died(double, PeerId peer) override { dead.push_back(peer); }
    int jobs = 0;
    std::vector<PeerId> dead;

   private:
    EndingTransport& transport_;
  };
  Scene scene;
  EndingTransport transport;
  EndsAtThirdJob observer(transport);
  Peer peer(PeerId(0), scene.plan, {{PeerId(0)}, {}, Term(1)}, {});
  PeerLoop loop(peer, {scene.clock, transport, scene.compute, scene.storage}, scene.inbox);
  loop.watch(observer);
  EXPECT_EQ(loop.run().code(), ExitStatus::stopped);
  EXPECT_FALSE(peer.done());
  EXPECT_EQ(observer.jobs, 3);
  EXPECT_EQ(observer.dead, std::vector{PeerId(0)});
}

// How far a job has come is asked every heartbeat while it hangs: that is no progress.
TEST(PeerLoop, SaysWhatItWaitsForWhileAJobHangs) {
  class HangingCompute final : public Compute {
   public:
    void start(Job) override {}
  };
  class EndsAfterAWhile final : public Transport {
   public:
    void send(PeerId to, Message message) override { below_.send(to, std::move(message)); }
    std::optional<Event> receive() override { return below_.receive(); }
    void wait(int, double) override { ++waits_; }
    void kill(PeerId) override {}
    void spawn() override {}
    bool flush(double) override { return true; }
    bool ended() const override { return waits_ > 5000; }

   private:
    LoopbackTransport below_{PeerId(0)};
    int waits_ = 0;
  };
  Scene scene;
  RunningClock clock;
  HangingCompute compute;
  EndsAfterAWhile transport;
  Peer peer(PeerId(0), scene.plan, {{PeerId(0)}, {}, Term(1)}, {});
  PeerLoop loop(peer, {clock, transport, compute, scene.storage}, scene.inbox);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(loop.run().code(), ExitStatus::stopped);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("no progress for 60 s; waiting for"), std::string::npos) << said;
}

TEST(PeerLoop, AJournalThatAnotherRunHoldsEndsThisOne) {
  class TakenTerm final : public NoStorage {
   public:
    explicit TakenTerm(Inbox& inbox) : NoStorage(inbox), inbox_(inbox) {}
    using NoStorage::take;
    void take(CreateTerm action) override { inbox_.post(TermCreated{action.term, false}); }

   private:
    Inbox& inbox_;
  };
  Scene scene;
  TakenTerm storage(scene.inbox);
  Peer peer(PeerId(0), scene.plan, {{PeerId(0)}, {}, Term(1)}, {});
  PeerLoop loop(peer, {scene.clock, scene.transport, scene.compute, storage}, scene.inbox);
  EXPECT_EQ(loop.run().code(), ExitStatus::no);
}

}  // namespace
}  // namespace swarmpi::peer_loop_test
