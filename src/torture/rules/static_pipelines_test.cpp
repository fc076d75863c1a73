#include "torture/rules/static_pipelines.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/message.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/views.hpp"
#include "protocol/method/layout.hpp"
#include "protocol/step/restart_point.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::static_pipelines_test {
namespace {

// Peers 0 and 1 are a pipeline of two stages, peers 2 and 3 another, peer 4 is a spare; peer 0
// leads. Microbatches 0, 2 and 4 go through the first, 1 and 3 through the second.
struct Scene {
  explicit Scene(Method method = Method::gpipe) : plan(testing::tiny_plan(2, 3)) {
    plan.swarm.method = method;
    std::vector<PeerId> workers;
    for (std::int32_t id = 0; id < 4; ++id) workers.emplace_back(id);
    view = deal_pipelines(workers, {PeerId(4)}, plan.stage_costs);
    view.number.term = Term(1);
    rules.emplace(plan, share(view), Incarnation(0));
    publish();
    for (const auto& [peer, stages] : view.members()) says(peer.value, TableMessage{});
  }
  std::string says(std::int32_t peer, MessageBody body, std::int32_t to = 0) {
    return rules->sends(PeerId(peer), {PeerId(to), {incarnation, view.number, std::move(body)}},
                        committed);
  }
  // With the next view; where all go back, from this step on.
  std::string publish(std::optional<std::int64_t> from = {}) {
    view.number.number += 1;
    std::shared_ptr<RestartPoint> restart;
    if (from) {
      incarnation = Incarnation(incarnation.value + 1);
      restart = std::make_shared<RestartPoint>();
      restart->state.step = *from;
    }
    return says(0, ViewMessage{share(view), restart});
  }
  static WorkId work(std::int32_t index, std::int32_t stage) {
    return {{Step(0), Purpose::train, index}, StageId(stage)};
  }
  std::string forward(std::int32_t index, std::int32_t stage, std::int32_t from, std::int32_t to) {
    return says(from, ForwardMessage{work(index, stage), nullptr, nullptr}, to);
  }
  std::string begins_forward(std::int32_t peer, std::int32_t index) {
    return rules->starts(PeerId(peer), ForwardJob{work(index, 0), nullptr});
  }
  std::string begins_backward(std::int32_t peer, std::int32_t index) {
    BackwardJob job;
    job.work = work(index, 0);
    return rules->starts(PeerId(peer), job);
  }
  void does_forward(std::int32_t peer, std::int32_t index) {
    EXPECT_EQ(begins_forward(peer, index), "");
    rules->finished(PeerId(peer), ForwardResult{work(index, 0), nullptr, 0});
  }
  RunPlan plan;
  View view;
  Incarnation incarnation;
  Step committed{-1};
  std::optional<StaticPipelines> rules;
};

bool says(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST(StaticPipelines, AMicrobatchStaysInItsPipeline) {
  Scene scene;
  EXPECT_EQ(scene.says(0, IssueMessage{Scene::work(3, 0).microbatch, nullptr}, 2), "");
  EXPECT_EQ(scene.forward(3, 1, 2, 3), "");
  EXPECT_TRUE(says(scene.forward(3, 1, 2, 1), "stays in its pipeline"));
  EXPECT_TRUE(says(scene.says(0, IssueMessage{Scene::work(3, 0).microbatch, nullptr}, 0),
                   "stays in its pipeline"));
}

TEST(StaticPipelines, NothingIsRepaired) {
  Scene scene;
  EXPECT_TRUE(says(scene.says(0, ResendMessage{}), "repair nothing"));
  EXPECT_TRUE(says(scene.says(0, IssueMessage{{}, std::make_shared<Path>()}), "along a path"));
}

TEST(StaticPipelines, NobodyLearnsOrChangesItsRole) {
  Scene scene;
  scene.view.learn(PeerId(4), StageId(0));
  EXPECT_TRUE(says(scene.publish(), "nobody learns"));
  scene.view.serve(PeerId(4), StageId(0));
  EXPECT_TRUE(says(scene.publish(), "roles change only when all go back"));
}

TEST(StaticPipelines, AfterADeathNothingIsIssuedOrSealedUntilAllGoBack) {
  Scene scene;
  scene.rules->lost_somebody();
  scene.view.remove(PeerId(3));
  EXPECT_EQ(scene.publish(), "");
  EXPECT_TRUE(says(scene.says(0, SealMessage{}), "answered by going back: peer 3"));
  EXPECT_TRUE(says(scene.says(0, IssueMessage{}), "answered by going back: peer 3"));
  scene.view.serve(PeerId(4), StageId(1));
  EXPECT_EQ(scene.publish(-1), "");
  EXPECT_EQ(scene.says(0, SealMessage{}), "");
}

TEST(StaticPipelines, ASpareTakesThePlace) {
  Scene scene;
  scene.rules->lost_somebody();
  scene.view.remove(PeerId(3));
  scene.view.take_from(PeerId(2), StageId(0));
  EXPECT_TRUE(says(scene.publish(-1), "as many pipelines as peers can form: 1"));
  scene.rules->ask_to_leave(PeerId(4));
  EXPECT_EQ(scene.publish(-1), "") << "nobody owes it a place";
}

TEST(StaticPipelines, WhoLeavesCostsNothing) {
  Scene scene;
  scene.committed = Step(2);
  EXPECT_EQ(scene.publish(2), "");
  EXPECT_TRUE(says(scene.publish(1), "costs nothing"));
  scene.rules->lost_somebody();
  EXPECT_EQ(scene.publish(1), "");
  EXPECT_TRUE(says(scene.publish(1), "costs nothing"));
}

// A leader that has heard of neither death deals both a place; once it has left, each of the two
// leads without the other.
TEST(StaticPipelines, WhereTwoHoldEachOtherForDeadEachMayGoBackOnceOneAsksToLead) {
  Scene scene;
  scene.committed = Step(2);
  scene.rules->lost_somebody();
  EXPECT_EQ(scene.publish(2), "");
  const View dealt = scene.view;
  const auto lead = [&](std::int64_t term, std::int32_t lost) {
    scene.view = dealt;
    scene.view.remove(PeerId(lost));
    scene.view.serve(PeerId(4), lost % 2 == 0 ? StageId(0) : StageId(1));
    scene.view.number = {Term(term), 0};
    EXPECT_EQ(scene.publish(), "") << "without the other, before all go back";
    return scene.publish(1);
  };
  EXPECT_TRUE(says(lead(2, 3), "costs nothing"));
  scene.rules->two_may_lead();
  EXPECT_EQ(lead(3, 2), "");
  EXPECT_EQ(lead(4, 3), "");
}

TEST(StaticPipelines, InGPipeAllForwardPassesGoFirst) {
  Scene scene;
  scene.does_forward(2, 1);
  EXPECT_TRUE(says(scene.begins_backward(2, 1), "1 of 2 are done"));
  scene.does_forward(2, 3);
  EXPECT_EQ(scene.begins_backward(2, 3), "");
}

TEST(StaticPipelines, In1F1BAsManyMicrobatchesAreOpenAsThereAreStages) {
  Scene scene(Method::one_f_one_b);
  scene.does_forward(0, 0);
  scene.does_forward(0, 2);
  EXPECT_TRUE(says(scene.begins_forward(0, 4), "3 are"));
}

TEST(StaticPipelines, NoPassIsDoneTwiceInAnIncarnation) {
  Scene scene;
  scene.does_forward(0, 0);
  EXPECT_TRUE(says(scene.begins_forward(0, 0), "no pass is done twice"));
  scene.publish(-1);
  scene.says(0, TableMessage{});
  scene.does_forward(0, 0);
}

}  // namespace
}  // namespace swarmpi::static_pipelines_test
