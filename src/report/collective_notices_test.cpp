#include "report/collective_notices.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/messages/collective_port.hpp"

namespace swarmpi::collective_notices_test {
namespace {

const StageId kStage(1);
const ViewNumber kView{Term(4), 7};
const ViewNumber kNextView{Term(4), 8};

using Lines = std::vector<std::string>;

// Peer 3, a replica of stage 1, and what it says.
struct Scene {
  explicit Scene(std::int64_t place) : file(std::tmpfile()), notices(file, [this] { ++ended; }) {
    make(kView, place);
  }
  ~Scene() { std::fclose(file); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  static SealId seal(std::int64_t step) { return {Incarnation(0), Term(4), step}; }
  void make(const ViewNumber& view, std::int64_t place) {
    notices.asked(0, PeerId(3), MakeCollective{kStage, view, "id", place, 3});
  }
  void enter(double now_s, std::int64_t step, const ViewNumber& view = kView) {
    notices.asked(now_s, PeerId(3), EnterCollective{kStage, view, Step(step), seal(step), 1});
  }
  void done(std::int64_t step) {
    notices.happened(2, PeerId(3), CollectiveDone{kStage, kView, seal(step), {}});
  }
  void abort(double now_s) {
    notices.asked(now_s, PeerId(3), AbortCollective{kStage, kView, "a replica was lost"});
  }
  void fail(double now_s) {
    notices.happened(now_s, PeerId(3), CollectiveFailed{kStage, kView, "a deadline"});
  }
  // Since the last call.
  Lines said() {
    Lines lines;
    std::fseek(file, read, SEEK_SET);
    char line[300];
    while (std::fgets(line, sizeof line, file) != nullptr) lines.emplace_back(line);
    read = std::ftell(file);
    return lines;
  }

  std::FILE* file;
  CollectiveNotices notices;
  long read = 0;
  int ended = 0;  // lines that somebody else has begun
};

TEST(CollectiveNotices, TheFirstReplicaSaysOnceAViewThatItAddsUp) {
  Scene scene(0);
  EXPECT_TRUE(scene.said().empty()) << "it may never be ready";
  scene.enter(1, 5);
  EXPECT_EQ(scene.said(), Lines{"swarmpi: peer 3: the collective of stage 1: 3 replicas add up by "
                                "it from step 5 on\n"});
  EXPECT_EQ(scene.ended, 1);
  scene.done(5);
  scene.enter(3, 6);
  EXPECT_TRUE(scene.said().empty());
  scene.make(kNextView, 0);
  scene.enter(4, 7, kNextView);
  EXPECT_EQ(scene.said().size(), 1u);
}

TEST(CollectiveNotices, ItsEndInTheMiddleIsSaidWithStepAndTime) {
  Scene scene(1);
  scene.enter(1, 5);
  EXPECT_TRUE(scene.said().empty()) << "the first replica says it";
  scene.abort(1.25);
  EXPECT_EQ(scene.said(), Lines{"swarmpi: peer 3: the collective of stage 1: ended 250 ms into the "
                                "sums of step 5: a replica was lost\n"});
  scene.fail(2);
  EXPECT_TRUE(scene.said().empty()) << "what came of the abort";
}

TEST(CollectiveNotices, NotOnlyADeathEndsIt) {
  Scene scene(1);
  scene.enter(1, 5);
  scene.fail(61);
  EXPECT_EQ(scene.said(), Lines{"swarmpi: peer 3: the collective of stage 1: ended 60000 ms into "
                                "the sums of step 5: a deadline\n"});
}

TEST(CollectiveNotices, AnEndBetweenTwoSumsIsNoNews) {
  Scene scene(1);
  scene.abort(1);
  scene.make(kView, 1);
  scene.enter(1, 5);
  scene.done(4);
  scene.done(5);
  scene.abort(3);
  EXPECT_TRUE(scene.said().empty());
}

TEST(CollectiveNotices, OfManyReplicasTwoSpeak) {
  Scene scene(2);
  scene.enter(1, 5);
  scene.abort(2);
  EXPECT_TRUE(scene.said().empty());
}

}  // namespace
}  // namespace swarmpi::collective_notices_test
