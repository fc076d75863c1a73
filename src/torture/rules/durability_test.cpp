#include "torture/rules/durability.hpp"

#include <gtest/gtest.h>

#include "core/ids.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/step/restart_point.hpp"

namespace swarmpi::durability_test {
namespace {

const PeerId kLeader(0), kNext(1);
const Status kStopped = Status::stopped("asked to stop");

// Goes on after step 4.
struct Scene {
  static StoreRecord row(std::int64_t step) { return {step, StepRow{.step = step}}; }
  void asks(PeerId peer, std::int64_t step) { durability.stores(peer, row(step)); }
  void writes(PeerId peer, std::int64_t step) { disk.append(peer, {}, row(step)); }
  void checkpoints(std::int64_t step) {
    RestartPoint made;
    made.state.step = step;
    disk.keep(made);
  }
  std::string announces(std::int64_t written, std::int64_t checkpointed) {
    return durability.announces({nullptr, Step(written), Step(checkpointed)});
  }
  std::string stops(std::int64_t last_commit) {
    return durability.finishes(kStopped, Step(last_commit));
  }

  VirtualDisk disk;
  Durability durability{disk, Step(4)};
};

TEST(Durability, ARowIsDurableBeforeItCounts) {
  Scene scene;
  EXPECT_EQ(scene.announces(4, 4), "") << "these were there before";
  scene.writes(kLeader, 5);
  EXPECT_EQ(scene.announces(6, 4), "a row is durable before it counts as written: step 6");
  scene.writes(kNext, 6);
  EXPECT_EQ(scene.announces(6, 4), "");
}

TEST(Durability, ACheckpointIsDurableBeforeItCounts) {
  Scene scene;
  EXPECT_EQ(scene.announces(4, 8), "a checkpoint is durable before it counts: step 8");
  scene.checkpoints(8);
  EXPECT_EQ(scene.announces(4, 8), "");
}

TEST(Durability, NobodyFinishesBeforeCompletionIsDurable) {
  Scene scene;
  EXPECT_EQ(scene.durability.finishes(Status(), Step(9)),
            "nobody finishes before completion is durable: finished");
  scene.disk.ended = std::make_shared<const EndMessage>(EndMessage{ExitStatus::good, ""});
  EXPECT_EQ(scene.durability.finishes(Status(), Step(9)), "");
  EXPECT_EQ(scene.durability.finishes(Status::failed("NaN"), Step(9)), "");
}

TEST(Durability, NobodyStopsBeforeJournalAndCheckpointAreDurable) {
  const std::string broken = "nobody stops before journal and checkpoint are durable: finished";
  Scene scene;
  EXPECT_EQ(scene.stops(4), "");
  EXPECT_EQ(scene.stops(5), broken) << "nothing is saved since step 4";
  scene.checkpoints(5);
  scene.asks(kLeader, 5);
  EXPECT_EQ(scene.stops(5), broken);
  scene.writes(kLeader, 5);
  scene.durability.stores(kLeader, {6, EventRow{}});
  EXPECT_EQ(scene.stops(5), "") << "an event may be lost";
}

TEST(Durability, RowsOfTheDeadAndOfThoseWhoseTermIsOverAreForTheNextLeader) {
  Scene scene;
  scene.asks(kLeader, 5);
  EXPECT_NE(scene.stops(4), "");
  scene.durability.forget(kLeader);
  EXPECT_EQ(scene.stops(4), "");
  scene.asks(kNext, 5);
  scene.asks(kNext, 6);
  scene.writes(kNext, 5);
  scene.durability.refused(kNext);
  EXPECT_EQ(scene.stops(4), "");
}

}  // namespace
}  // namespace swarmpi::durability_test
