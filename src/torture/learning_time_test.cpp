// How long a newcomer takes to serve over slow lines, against the size of its state; and whether
// anybody is taken for dead meanwhile, whose signs of life wait behind that state.

#include <gtest/gtest.h>

#include "protocol/messages/record_port.hpp"
#include "torture/swarm_check.hpp"

namespace swarmpi::learning_time_test {
namespace {

constexpr double kRate = 25e6;  // bytes a second: 200 Mb/s
constexpr double kJoinsAtS = 10;

class Times final : public Observer {
 public:
  void asked(double now_s, PeerId, const Action& action) override {
    if (holds_alternative<KillPeer>(action)) ++kills;
    const auto* record = get_if<StoreRecord>(&action);
    const auto* event = record == nullptr ? nullptr : std::get_if<EventRow>(&record->row);
    if (event == nullptr) return;
    if (event->kind == EventKind::commit) {
      if (now_s < kJoinsAtS) step_s = now_s - last_commit_s;
      last_commit_s = now_s;
    }
    if (event->kind == EventKind::dismiss) ++dropped;
    if (event->kind == EventKind::migrate && !serves_at_s) serves_at_s = now_s;
  }

  std::string violation;
  std::int64_t kills = 0, dropped = 0;
  double step_s = 0;  // the last before somebody joins
  double last_commit_s = 0;
  std::optional<double> serves_at_s;
};

// Lines are slow here, not peers: all but the passes take no time.
class Passes final : public CostModel {
 public:
  explicit Passes(double pass_s) : pass_s_(pass_s) {}
  double seconds(PeerId, const Job& job) override {
    const bool passes = holds_alternative<ForwardJob>(job) || holds_alternative<BackwardJob>(job);
    return passes ? pass_s_ : 1e-4;
  }

 private:
  double pass_s_;
};

struct Lines {
  Queue queue;
  std::int64_t elements;  // of the stage's one tensor
  std::int64_t piece_elements = 1 << 17;
  Updates updates = Updates::synchronous;
  Optimizer optimizer = Optimizer::adamw;
  double pass_s = 0.6;
};

// Three peers serve one stage, and a fourth joins. A block of 4096 elements is a word in an update,
// and a word for each version of the weights and each moment in the state: 2048 bytes a byte.
Times learning_over(const Lines& lines) {
  RandomSwarm swarm = alone(draw_swarm(1));
  RunPlan& plan = swarm.plan;
  plan.train.steps = 40;
  plan.train.microbatches = swarm.model.microbatches = 6;
  plan.train.updates = lines.updates;
  plan.train.optimizer = lines.optimizer;
  plan.validate_every = plan.checkpoint_every = 0;
  plan.tensor_names = {"tensor.0"};
  plan.tensor_elements = {lines.elements};
  plan.stage_tensors = {{0}};
  plan.stage_costs = {1};
  plan.recovers = true;
  plan.torture_only = {};
  plan.torture_only.piece_elements = lines.piece_elements;
  swarm.model.flag_chance = 0;
  RandomLinksPlan line;
  line.queue = lines.queue;
  line.bytes_per_s = kRate;
  line.bytes_per_payload_byte = 2048;
  RandomLinks links(1, line);
  Passes costs(lines.pass_s);
  RandomDisks disks(1, {});
  VirtualDisk disk;
  SyntheticComputeFactory compute_factory(swarm.model);
  SwarmSetting setting;
  setting.plan = plan;
  setting.membership = {{PeerId(0), PeerId(1), PeerId(2)}, {}, Term(1)};
  setting.joins = {{PeerId(3), kJoinsAtS}};
  setting.compute = [&](PeerId id) {
    return compute_factory.make(id, setting.plan, setting.membership, setting.resume);
  };
  Times times;
  times.violation = run_swarm(setting, links, costs, disks, disk, &times).violation;
  return times;
}

void expect_in_time(const Lines& lines) {
  const Times times = learning_over(lines);
  const double versions = lines.updates == Updates::delayed ? 2 : 1;
  const double carried_s = static_cast<double>(lines.elements) * 4 * (versions + 2) / kRate;
  EXPECT_EQ(times.violation, "");
  EXPECT_EQ(times.kills, 0);
  EXPECT_EQ(times.dropped, 0);
  ASSERT_TRUE(times.serves_at_s);
  const double took_s = *times.serves_at_s - kJoinsAtS;
  EXPECT_LT(took_s, 1.5 * carried_s + 3 * times.step_s);
  std::printf("%.1f s, of which the state alone would take %.1f s; a step of %.1f s\n", took_s,
              carried_s, times.step_s);
}

TEST(LearningTime, OneLineAPairAndAStateOf240MB) { expect_in_time({Queue::pair, 20'000'000}); }

TEST(LearningTime, OneUplinkAPeerAndAStateOf60MB) { expect_in_time({Queue::uplink, 5'000'000}); }

TEST(LearningTime, DelayedUpdatesAndTrustRatiosToo) {
  expect_in_time({Queue::uplink, 5'000'000, 1 << 17, Updates::delayed, Optimizer::lamb});
}

TEST(LearningTime, ALargeStateOverShortSteps) {
  expect_in_time({Queue::uplink, 5'000'000, 1 << 17, Updates::synchronous, Optimizer::adamw, 0.1});
}

// Heartbeats overtake it. What the pieces are for, then, is that they can be brought up to date.
TEST(LearningTime, AsOneMessageTheStateKillsNobodyEither) {
  EXPECT_EQ(learning_over({Queue::uplink, 10'000'000, std::int64_t{1} << 40}).kills, 0);
}

// Boundaries of 33.5 MB leave a peer one after another, seconds long, and its heartbeats with them.
TEST(SlowUplinks, LargeBoundariesKillNobody) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    RandomSwarm swarm = alone(draw_swarm(1));
    RunPlan& plan = swarm.plan;
    plan.train.steps = 3;
    plan.train.microbatches = swarm.model.microbatches = 32;
    plan.train.updates = Updates::synchronous;
    plan.validate_every = plan.checkpoint_every = 0;
    plan.tensor_names = {"tensor.0", "tensor.1"};
    plan.tensor_elements = {4096, 4096};
    plan.stage_tensors = {{0}, {1}};
    plan.stage_costs = {1, 1};
    plan.swarm.stages = 2;
    plan.recovers = true;
    plan.torture_only = {};
    swarm.model.flag_chance = 0;
    swarm.model.activation_words = swarm.model.gradient_words = 1;
    RandomLinksPlan line;
    line.queue = Queue::uplink;
    line.bytes_per_s = kRate;
    line.bytes_per_payload_byte = 33.5e6 / 8;
    RandomLinks links(seed, line);
    Passes costs(0.1);
    RandomDisks disks(seed, {});
    VirtualDisk disk;
    SyntheticComputeFactory compute_factory(swarm.model);
    SwarmSetting setting;
    setting.plan = plan;
    for (std::int32_t id = 0; id < 16; ++id) setting.membership.workers.emplace_back(id);
    setting.membership.first_term = Term(1);
    setting.compute = [&](PeerId id) {
      return compute_factory.make(id, setting.plan, setting.membership, setting.resume);
    };
    Times times;
    times.violation = run_swarm(setting, links, costs, disks, disk, &times).violation;
    EXPECT_EQ(times.violation, "");
    EXPECT_EQ(times.kills, 0);
    EXPECT_GT(times.last_commit_s, 10) << "lines are slow";
  }
}

}  // namespace
}  // namespace swarmpi::learning_time_test
