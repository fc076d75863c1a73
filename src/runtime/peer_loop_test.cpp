#include "runtime/peer_loop.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "transport/loopback.hpp"

namespace swarmpi {
namespace {

class StandingClock final : public Clock {
 public:
  double now_s() const override { return 1; }
};

// Answers every job and store at once, as if nothing took time.
class InstantCompute final : public Compute {
 public:
  explicit InstantCompute(Inbox& inbox) : inbox_(inbox) {}
  void start(Job job) override {
    if (const auto* backward = std::get_if<BackwardJob>(&job)) {
      inbox_.post(
          JobFinished{BackwardResult{backward->work, nullptr, 2.0, {{-3, false, false}}}, 0});
    } else if (const auto* reduce = std::get_if<ReduceJob>(&job)) {
      inbox_.post(
          JobFinished{ReduceResult{reduce->seal, reduce->stage, reduce->chunk, {1.0}, nullptr}, 0});
    } else if (const auto* apply = std::get_if<ApplyJob>(&job)) {
      inbox_.post(JobFinished{ApplyResult{apply->record->step, apply->stage, {5}}, 0});
    }
  }

 private:
  Inbox& inbox_;
};

class InstantStorage final : public Storage {
 public:
  explicit InstantStorage(Inbox& inbox) : inbox_(inbox) {}
  void take(CreateTerm a) override { inbox_.post(TermCreated{a.term, !term_taken}); }
  void take(StoreRecord a) override { inbox_.post(RecordDurable{a.number}); }
  void take(StoreStage a) override { inbox_.post(StageStored{a.step, a.stage, {"f", 0, 0}, {5}}); }
  void take(StoreManifest a) override { inbox_.post(CheckpointDurable{Step(a.state.step)}); }
  void take(StoreEnd) override { inbox_.post(EndDurable{}); }
  void take(LoadManifest) override { inbox_.post(ManifestLoaded{}); }
  void take(LoadStage a) override { inbox_.post(StageLoaded{a.incarnation, a.stage}); }
  bool term_taken = false;

 private:
  Inbox& inbox_;
};

struct Scene {
  Scene() {
    plan.train.steps = 3;
    plan.train.microbatches = 2;
    plan.tokens_per_microbatch = 4;
    plan.tensor_names = {"only"};
    plan.tensor_elements = {1};
    plan.stage_tensors = {{0}};
    plan.stage_costs = {1};
  }
  Status run() {
    Peer peer(PeerId(0), plan, {{PeerId(0)}, {}, Term(1)}, {});
    PeerLoop loop(peer, {clock, transport, compute, storage}, inbox,
                  [this](const StoreRecord& record) {
                    if (const auto* row = std::get_if<StepRow>(&record.row)) rows.push_back(*row);
                  });
    return loop.run();
  }
  RunPlan plan;
  StandingClock clock;
  Inbox inbox;
  LoopbackTransport transport{PeerId(0)};
  InstantCompute compute{inbox};
  InstantStorage storage{inbox};
  std::vector<StepRow> rows;
};

class RunningClock final : public Clock {
 public:
  double now_s() const override { return now_s_ += 0.01; }

 private:
  mutable double now_s_ = 0;
};

// Another peer that sends heartbeats without a pause, until it is lost.
class TalkativeTransport final : public Transport {
 public:
  void send(PeerId, Message message) override {
    heartbeats += std::holds_alternative<HeartbeatMessage>(message.body) ? 1 : 0;
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
  PeerLoop loop(peer, {clock, transport, scene.compute, scene.storage}, scene.inbox, {});
  EXPECT_EQ(loop.run().code(), ExitStatus::stopped);
  EXPECT_GT(transport.heartbeats, 20);
}

TEST(PeerLoop, ReceivesWhereTheTimerIsAlwaysDue) {
  Scene scene;
  scene.plan.swarm.heartbeat_s = 1e-6;
  RunningClock clock;
  TalkativeTransport transport;
  Peer peer(PeerId(0), scene.plan, {{PeerId(0), PeerId(1)}, {}, Term(1)}, {});
  PeerLoop loop(peer, {clock, transport, scene.compute, scene.storage}, scene.inbox, {});
  EXPECT_EQ(loop.run().code(), ExitStatus::stopped);
}

TEST(PeerLoop, RunsAPeerToItsEndAndObservesDurableRows) {
  Scene scene;
  const Status status = scene.run();
  EXPECT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(scene.rows.size(), 4u);
  EXPECT_EQ(scene.rows[3].loss, 0.5);  // 2 microbatches of 2 nats over 8 tokens
}

// Not even those of the event that it was handling when its process died.
TEST(PeerLoop, ADeadPeerExecutesNoFurtherAction) {
  Scene scene;
  EmulatedProcess emulated_process;
  Peer peer(PeerId(0), scene.plan, {{PeerId(0)}, {}, Term(1)}, {});
  int jobs = 0;
  PeerLoop loop(peer,
                {scene.clock, scene.transport, scene.compute, scene.storage, &emulated_process},
                scene.inbox, {}, [&](const Action& action) {
                  if (std::holds_alternative<StartJob>(action) && ++jobs == 3)
                    emulated_process.dead = true;
                });
  EXPECT_EQ(loop.run().code(), ExitStatus::stopped);
  EXPECT_FALSE(peer.done());
  EXPECT_EQ(jobs, 3);
}

TEST(PeerLoop, APeerThatIsStoppedGoesOnLater) {
  Scene scene;
  EmulatedProcess emulated_process;
  emulated_process.stopped = true;
  Peer peer(PeerId(0), scene.plan, {{PeerId(0)}, {}, Term(1)}, {});
  std::atomic<bool> works = false;
  PeerLoop loop(
      peer, {scene.clock, scene.transport, scene.compute, scene.storage, &emulated_process},
      scene.inbox, {},
      [&](const Action& action) { works = works || std::holds_alternative<StartJob>(action); });
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(works);
    emulated_process.stopped = false;
  });
  EXPECT_TRUE(loop.run().ok());
  later.join();
}

TEST(PeerLoop, AJournalThatAnotherRunHoldsEndsThisOne) {
  Scene scene;
  scene.storage.term_taken = true;
  EXPECT_EQ(scene.run().code(), ExitStatus::no);
}

}  // namespace
}  // namespace swarmpi
