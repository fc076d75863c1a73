// Pins the rules that decide bits: each is evaluated on fixed inputs, with the reference kernels.
// It stands where both the model and the data can be seen.

#include "model/numeric_rules.hpp"

#include <gtest/gtest.h>

#include "core/hash.hpp"
#include "data/dataset.hpp"
#include "data/test_files.hpp"
#include "kernels/fixed_point_element.hpp"
#include "kernels/optimizer_element.hpp"
#include "model/local_trainer_test.hpp"
#include "protocol/fake_world_test.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/exponents.hpp"

namespace swarmpi::test::numeric_rules_test {
namespace {

class Results {
 public:
  template <class T>
  Results& add(T number) {
    static_assert(std::is_arithmetic_v<T>);
    hash_.add(&number, sizeof number);
    return *this;
  }
  template <class T>
  Results& add(const std::vector<T>& numbers) {
    for (const T& number : numbers) add(number);
    return *this;
  }
  std::uint64_t hash() const { return hash_.value(); }

 private:
  StreamHash hash_;
};

void add_schedules(Results& results) {
  TrainConfig train;
  train.steps = 9;
  train.min_lr = 1e-4;
  for (const Schedule schedule : {Schedule::cosine, Schedule::linear, Schedule::constant}) {
    for (const std::int64_t warmup : {0, 3, 9}) {
      train.schedule = schedule;
      train.warmup_steps = warmup;
      for (std::int64_t t = 1; t <= train.steps; ++t) results.add(learning_rate(train, t));
    }
  }
  for (const double beta : {0.0, 0.5, 0.9, 0.99999}) {
    for (const std::int64_t t : {1, 2, 7, 1000}) results.add(bias_correction(beta, t));
  }
}

void add_fixed_point(Results& results) {
  using namespace kernels;
  for (const std::int64_t microbatches : {1, 3, 4096, 100'000}) {
    const int bits = fixed_point_bits(microbatches);
    const int q = quantum_exponent(-3, bits);
    results.add(bits).add(q).add(to_fixed_point(0.3f, power_of_two(-q)));
    results.add(rounded_mean((std::int64_t{1} << 60) + 12'345, quantum_per_token(q, 7)));
  }
  for (const float largest : {0.0f, 1e-40f, 0.5f, 1.0f, 70'000.0f, INFINITY}) {
    for (const std::int16_t exponent : {kNoExponent, std::int16_t{0}}) {
      const Contribution c = measured(magnitude_bits(largest), exponent);
      results.add(c.exponent).add(c.nonfinite).add(c.overflow);
    }
  }
  results.add(next_exponents({3, kNoExponent, -40, 7}, {kNoExponent, kNoExponent, 2, 9}));
}

/// Losses, norm, clipping, the skipping of steps and what follows from it.
void add_commits(Results& results) {
  RunPlan plan = swarmpi::testing::tiny_plan(2, 9);
  plan.train.updates = Updates::delayed;
  plan.validate_every = 2;
  plan.validation_microbatches = 2;
  plan.validation_missing = 5;
  swarmpi::testing::FakeWorld world(plan, 1);
  world.spoil = [](const WorkId& work, kernels::Contribution& contribution) {
    if (work.microbatch.step == Step(4)) contribution.nonfinite = true;
  };
  EXPECT_TRUE(world.run());
  EXPECT_EQ(std::ssize(world.commits), plan.train.steps + 1);
  for (const CommitRecord& record : world.commits) {
    results.add(record.loss).add(record.validation_loss).add(record.tokens);
    results.add(record.skipped ? 0 : record.grad_norm).add(record.clip).add(record.lr);
    results.add(record.correction1).add(record.correction2).add(record.skipped);
    results.add(record.applied_updates).add(record.skips_in_a_row).add(record.next_exponents);
    for (const Exponents& exponents : record.exponents_between) results.add(exponents);
  }
}

void add_trust_ratios(Results& results) {
  for (const double weights : {0.0, 1e-30, 4.0}) {
    for (const double direction : {0.0, 1e-30, 3.0}) {
      results.add(kernels::trust_ratio(weights, direction));
    }
  }
}

/// Initial values, passes, head, updates and the state hash with all that it covers.
void add_training(Results& results) {
  for (const Optimizer optimizer : {Optimizer::adamw, Optimizer::lamb}) {
    for (const Updates updates : {Updates::synchronous, Updates::delayed}) {
      Config config = tiny_deck();
      config.train.optimizer = optimizer;
      config.train.updates = updates;
      config.train.weight_decay = 0.1;
      const auto backend = ready_backend(config);
      LocalTrainer trainer(config, *backend, 2, 0);
      for (const Row& row : trainer.train(4)) {
        results.add(row.loss).add(row.grad_norm).add(row.state_hash).add(row.exponents);
      }
    }
  }
}

/// The order of the data, and which sequences are held out; the last of these microbatches lacks
/// some.
void add_data(Results& results) {
  const DataFolder folder;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += static_cast<char>(i * i % 251 % 127);
  Config config = tiny_deck();
  config.model.vocab = 256;
  config.data.paths = {folder.write("text", text)};
  config.data.validation_fraction = 0.1;
  config.train.microbatch_size = 7;
  const Dataset data = Dataset::open(config).value();
  results.add(data.validation_tokens()).add(data.validation_microbatches());
  EXPECT_NE(data.validation_sequences() % config.train.microbatch_size, 0);
  std::vector<std::int32_t> inputs(as_size(7 * config.model.context)), targets(inputs.size());
  const auto add = [&](std::int64_t step, Purpose purpose, std::int64_t index) {
    const MicrobatchId id{Step(step), purpose, static_cast<std::int32_t>(index)};
    EXPECT_TRUE(data.microbatch(id, inputs, targets).ok());
    results.add(inputs).add(targets);
  };
  for (const std::int64_t step : {0, 1, 7, 50}) add(step, Purpose::train, 2);
  for (std::int64_t m = 0; m < data.validation_microbatches(); ++m) add(1, Purpose::validate, m);
}

TEST(NumericRules, ChangeWithTheirVersionOnly) {
  Results results;
  results.add(kRulesVersion);
  add_schedules(results);
  add_fixed_point(results);
  add_commits(results);
  add_trust_ratios(results);
  add_training(results);
  add_data(results);
  EXPECT_EQ(results.hash(), kRulesHash) << "the rules' results changed: raise kRulesVersion, then "
                                           "let kRulesHash be 0x"
                                        << hex(results.hash());
}

}  // namespace
}  // namespace swarmpi::test::numeric_rules_test
