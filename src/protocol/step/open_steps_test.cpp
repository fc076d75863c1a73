#include "protocol/step/open_steps.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/reports.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::open_steps_test {
namespace {

using testing::tiny_plan;

// Always the same peer; counts how often it was told that all are idle.
class ToPeerZero : public Router {
 public:
  explicit ToPeerZero(int& idle_calls) : idle_calls_(idle_calls) {}
  PeerId choose(const MicrobatchId&) override { return PeerId(0); }
  void measured(PeerId, double) override {}
  void all_idle() override { ++idle_calls_; }
  void set_peers(const std::vector<PeerId>&, std::size_t) override {}

 private:
  int& idle_calls_;
};

// One stage, served by peer 0, and four steps of five microbatches; two may be in flight.
struct Scene {
  explicit Scene(Step after = Step(0)) : committed(after) { view.serve(PeerId(0), StageId(0)); }
  std::vector<std::int64_t> open_numbers() const {
    std::vector<std::int64_t> numbers;
    for (const auto& [step, open] : steps) numbers.push_back(step.value);
    return numbers;
  }
  void finishes(const MicrobatchId& id) {
    ReportMessage report;
    if (id.purpose == Purpose::train) {
      report.contributions = {{{id, StageId(0)}, {kernels::Contribution{}}}};
    }
    report.losses = {LossFact{id, 32.0}};
    steps.enter(report, view, PeerId(0));
  }
  void finishes_all_training(Step step) {
    for (std::int32_t index = 0; index < 5; ++index) finishes({step, Purpose::train, index});
  }

  RunPlan plan = tiny_plan(1, 4);
  View view;
  Step committed;
  int idle_calls = 0;
  SealId first_seal{Incarnation(1), Term(3), 1};
  OpenSteps steps{plan, std::make_unique<ToPeerZero>(idle_calls), committed, first_seal};
};

TEST(OpenSteps, AStepOpensWhenTheCommitThatItsWeightsNeedIsThere) {
  Scene scene;
  scene.steps.open_due(Step(0), 0);
  EXPECT_EQ(scene.open_numbers(), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(scene.steps.newest(), Step(1));
  EXPECT_EQ(scene.steps.oldest(), Step(1));
  scene.steps.close(Step(1));
  scene.steps.open_due(Step(1), 0);
  EXPECT_EQ(scene.open_numbers(), (std::vector<std::int64_t>{2}));
}

TEST(OpenSteps, WithDelayedUpdatesTheNextStepOpensBesideTheOneThatIsReduced) {
  Scene scene;
  scene.plan.train.updates = Updates::delayed;
  scene.steps.open_due(Step(0), 0);
  EXPECT_EQ(scene.open_numbers(), (std::vector<std::int64_t>{1, 2}));
  scene.steps.close(Step(1));
  scene.steps.open_due(Step(1), 0);
  EXPECT_EQ(scene.open_numbers(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_FALSE(scene.steps.opened_all());
}

TEST(OpenSteps, TheRouterForgetsLoadsOnlyWhenNothingIsOpen) {
  Scene scene;
  scene.steps.open_through(Step(2), 0);
  EXPECT_EQ(scene.idle_calls, 1) << "step 2 was opened beside step 1";
}

TEST(OpenSteps, TheWindowBoundsWhatIsInFlight) {
  Scene scene;
  scene.steps.open_due(Step(0), 0);
  const auto first = scene.steps.issue(Step(0));
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].to, PeerId(0));
  EXPECT_EQ(first[0].microbatch, (MicrobatchId{Step(1), Purpose::train, 0}));
  EXPECT_TRUE(scene.steps.issue(Step(0)).empty());
  scene.finishes(first[0].microbatch);
  EXPECT_EQ(scene.steps.issue(Step(0)).size(), 1u);
}

TEST(OpenSteps, AStepThatMayNotStartYetIsNotIssued) {
  Scene scene;
  scene.steps.open_through(Step(2), 0);
  scene.plan.window = 100;
  EXPECT_EQ(scene.steps.issue(Step(0)).size(), 5u) << "the five of step 1 alone";
  EXPECT_EQ(scene.steps.issue(Step(1)).size(), 5u);
}

TEST(OpenSteps, AMicrobatchIsSentAgainToTheHolderThatIsKnown) {
  Scene scene;
  scene.steps.open_due(Step(0), 0);
  OpenStep& open = *scene.steps.find(Step(1));
  const MicrobatchId id{Step(1), Purpose::train, 3};
  EXPECT_EQ(scene.steps.issue(open, id, PeerId(5), nullptr).to, PeerId(5));
  EXPECT_EQ(scene.steps.issue(open, id, std::nullopt, nullptr).to, PeerId(0));
  EXPECT_EQ(open.issued_count(), 1) << "sending it again issues nothing new";
}

TEST(OpenSteps, ReportsOfStepsThatAreNotOpenAndOfFormerReplicasChangeNothing) {
  Scene scene;
  scene.finishes_all_training(Step(1));
  EXPECT_FALSE(scene.steps.find(Step(1)));
  scene.steps.open_due(Step(0), 0);
  scene.view = View();
  scene.finishes_all_training(Step(1));
  EXPECT_TRUE(scene.steps.seal(scene.view, 0).empty());
}

TEST(OpenSteps, EachSealHasANumberOfItsOwn) {
  Scene scene;
  scene.steps.open_through(Step(2), 0);
  scene.finishes_all_training(Step(1));
  scene.finishes_all_training(Step(2));
  const auto seals = scene.steps.seal(scene.view, 0);
  ASSERT_EQ(seals.size(), 2u);
  EXPECT_EQ(seals[0].stages()[0].seal.number, 1);
  EXPECT_EQ(seals[1].stages()[0].seal.number, 2);
  EXPECT_EQ(scene.steps.next_seal().number, 3);
  EXPECT_TRUE(scene.steps.seal(scene.view, 0).empty()) << "they stand";
}

TEST(OpenSteps, APassThatOnlyValidatesClosesWithItsMeanLoss) {
  Scene scene(Step(4));
  scene.plan.train.updates = Updates::delayed;
  scene.plan.validate_every = 1;
  scene.plan.validation_microbatches = 2;
  scene.steps.open_due(Step(4), 0);
  ASSERT_EQ(scene.open_numbers(), (std::vector<std::int64_t>{5, 6}));
  EXPECT_TRUE(scene.steps.opened_all());
  scene.finishes({Step(5), Purpose::validate, 0});
  EXPECT_TRUE(scene.steps.close_validation_passes().empty());
  scene.finishes({Step(5), Purpose::validate, 1});
  const auto passes = scene.steps.close_validation_passes();
  ASSERT_EQ(passes.size(), 1u);
  EXPECT_EQ(passes[0].step, Step(5));
  EXPECT_EQ(passes[0].loss, 1.0) << "two microbatches of 32 nats and 32 tokens each";
  EXPECT_EQ(scene.open_numbers(), (std::vector<std::int64_t>{6}));
}

TEST(OpenSteps, SaysWhatTheOldestStepWaitsFor) {
  Scene scene;
  EXPECT_FALSE(scene.steps.waiting_for());
  scene.steps.open_due(Step(0), 0);
  scene.steps.issue(Step(0));
  EXPECT_EQ(scene.steps.waiting_for(), "microbatches of step 1: 2 issued, 0 finished");
  scene.finishes_all_training(Step(1));
  scene.steps.seal(scene.view, 0);
  EXPECT_EQ(scene.steps.waiting_for(), "the reduced gradients of step 1");
}

}  // namespace
}  // namespace swarmpi::open_steps_test
