#include "model/stage_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "model/local_trainer_test.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::test::stage_model_test {
namespace {

std::vector<Row> trained(const Config& config, std::int64_t stages, std::int64_t slots,
                         std::int64_t steps = 6) {
  const auto backend = ready_backend(config);
  return LocalTrainer(config, *backend, stages, slots).train(steps);
}

class Decks : public testing::TestWithParam<const char*> {
 protected:
  Config deck() const {
    Config config = tiny_deck();
    const std::string name = GetParam();
    if (name == "shared") config.model.shared_groups = 2;
    if (name == "delayed") config.train.updates = Updates::delayed;
    if (name == "lamb") config.train.optimizer = Optimizer::lamb;
    if (name.ends_with("bf16")) config.model.precision = Precision::bf16;
    if (name.starts_with("native")) config.compute.kernels = Kernels::native;
    if (name.ends_with("coded")) {
      config.swarm.compress_activations = Codec::blockwise8;
      config.swarm.compress_gradients = Codec::fp16;
    }
    if (name.find("bottleneck") != std::string::npos) {
      config.swarm.boundary = Boundary::bottleneck;
    }
    if (name.find("maxout") != std::string::npos) {
      config.swarm.boundary = Boundary::maxout;
      config.swarm.boundary_factor = 4;
    }
    return config;
  }
  std::vector<std::int64_t> stage_counts() const {
    return deck().model.shared_groups > 0 ? std::vector<std::int64_t>{1, 2}
                                          : std::vector<std::int64_t>{1, 2, 3, 4};
  }
};

INSTANTIATE_TEST_SUITE_P(All, Decks,
                         testing::Values("plain", "shared", "delayed", "lamb", "bf16", "native",
                                         "native_bf16"),
                         [](const auto& deck) { return std::string(deck.param); });

TEST_P(Decks, AnyNumberOfStagesAndKeptActivationsGiveTheSameBits) {
  const std::vector<Row> expected = trained(deck(), 1, 0);
  for (const std::int64_t stages : stage_counts()) {
    for (const std::int64_t slots : {0, 1, 8}) {
      EXPECT_EQ(trained(deck(), stages, slots), expected)
          << stages << " stages, " << slots << " slots";
    }
  }
}

TEST_P(Decks, StepZeroChangesNothingAndShowsTheLossOfStepOne) {
  const std::vector<Row> rows = trained(deck(), 1, 0, 1);
  EXPECT_TRUE(rows[0].skipped);
  EXPECT_FALSE(rows[1].skipped);
  EXPECT_EQ(rows[0].loss, rows[1].loss);
  EXPECT_NE(rows[0].state_hash, rows[1].state_hash);
}

TEST_P(Decks, TheModelLearns) {
  Config config = deck();
  config.train.steps = 150;
  if (config.train.optimizer == Optimizer::lamb) config.train.lr = 6e-2;
  const std::vector<Row> rows = trained(config, 1, 0, config.train.steps);
  EXPECT_NEAR(rows.front().loss, std::log(static_cast<double>(config.model.vocab)), 0.1);
  EXPECT_LT(rows.back().loss, 0.5 * rows.front().loss);
}

TEST_P(Decks, AStateSavedAndLoadedGoesOnWithTheSameBits) {
  const auto backend = ready_backend(deck());
  // After an odd and an even number of steps: the versions of delayed updates change their places.
  for (const std::int64_t saved_at : {3, 4}) {
    LocalTrainer source(deck(), *backend, 1, 0);
    source.train(saved_at);
    StageModel& from = *source.models()[0];
    StageModel fresh(deck(), partition_model(deck().model, 1).front(), *backend, 0);
    EXPECT_TRUE(fresh.initialize().ok());
    const auto saved = from.state();
    auto empty = fresh.state();
    for (std::size_t i = 0; i < saved.size(); ++i) {
      const std::int64_t count = saved[i].count();
      for (std::size_t v = 0; v < saved[i].weights.size(); ++v) {
        copy_array(*backend, empty[i].weights[v], saved[i].weights[v], count);
      }
      copy_array(*backend, empty[i].moment1, saved[i].moment1, count);
      copy_array(*backend, empty[i].moment2, saved[i].moment2, count);
    }
    fresh.loaded(Step(saved_at));
    EXPECT_EQ(fresh.tensor_hashes(), from.tensor_hashes());
    // The same validation loss for every version: weights, and the forms they are multiplied in,
    // are the same.
    const Text text(deck(), 1, 0);
    for (std::int64_t age = 0; age < deck().train.delay(); ++age) {
      const WorkId work{{Step(saved_at - age + deck().train.delay()), Purpose::validate, 0},
                        StageId(0)};
      EXPECT_EQ(fresh.forward(work, text.tokens, text.targets, {}, {}),
                from.forward(work, text.tokens, text.targets, {}, {}));
    }
  }
}

CommitRecord skipped_record(std::int64_t step) {
  CommitRecord record;
  record.step = Step(step);
  record.skipped = true;
  return record;
}

TEST_P(Decks, ASkippedStepLeavesTheStateAsItWas) {
  const auto backend = ready_backend(deck());
  LocalTrainer trainer(deck(), *backend, 1, 0);
  const std::uint64_t before = trainer.train(3).back().state_hash;
  const double loss = trainer.validate(3);
  StageModel& model = *trainer.models()[0];
  EXPECT_EQ(state_hash(model.tensor_hashes()), before);
  trainer.compute(4);
  const std::uint64_t skipped = state_hash(model.apply(skipped_record(4)));
  EXPECT_EQ(skipped, state_hash(model.tensor_hashes()));
  // With delayed updates the older version is the newest now, too.
  EXPECT_EQ(skipped == before, deck().train.updates == Updates::synchronous);
  EXPECT_EQ(trainer.validate(4), loss);
}

TEST_P(Decks, ValidationDisturbsNothing) {
  const auto backend = ready_backend(deck());
  LocalTrainer trainer(deck(), *backend, 2, 1);
  LocalTrainer undisturbed(deck(), *backend, 2, 1);
  for (std::int64_t step = 0; step < 4; ++step) {
    const auto rows = trainer.train(step);
    trainer.validate(step);
    EXPECT_EQ(rows, undisturbed.train(step));
  }
}

TEST_P(Decks, AFlippedBitShowsInOneTensorsHashAndStays) {
  const auto backend = ready_backend(deck());
  LocalTrainer trainer(deck(), *backend, 1, 0), flipped(deck(), *backend, 1, 0);
  trainer.train(3);
  flipped.train(3);
  StageModel& model = *flipped.models()[0];
  for (const std::uint64_t seed : {1, 2, 3}) {
    const auto before = model.tensor_hashes();
    const FlippedBit bit = model.flip(seed);
    const auto after = model.tensor_hashes();
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(before[i] != after[i], model.spec().tensors[i].name == bit.tensor)
          << bit.tensor << " " << model.spec().tensors[i].name;
    }
    EXPECT_EQ(model.flip(seed).element, bit.element);  // the same bit again: as it was
    EXPECT_EQ(model.tensor_hashes(), before);
  }
  model.flip(1);
  EXPECT_NE(flipped.validate(3), trainer.validate(3)) << "multiplied by as well";
  EXPECT_NE(flipped.train(4).back().state_hash, trainer.train(4).back().state_hash);
}

TEST_P(Decks, HashesAreMadeWithoutTheBackendWhichMayBeComputing) {
  struct Count : kernels::OperationListener {
    void begins(const char*) override { ++operations; }
    void ends(const char*) override {}
    int operations = 0;
  } count;
  const auto backend = ready_backend(deck());
  LocalTrainer trainer(deck(), *backend, 1, 0);
  trainer.train(2);
  backend->set_listener(&count);
  trainer.models()[0]->tensor_hashes();
  trainer.models()[0]->state();
  EXPECT_EQ(count.operations, 0);
  backend->set_listener(nullptr);
}

// What the other tests rely on: had code on the host touched the backend's memory, they would have
// died.
TEST(StageModelDeathTest, ItsStateIsOutOfTheHostsReach) {
  const Config config = tiny_deck();
  const auto backend = ready_backend(config);
  StageModel model(config, partition_model(config.model, 1).front(), *backend, 0);
  EXPECT_TRUE(model.initialize().ok());
  const volatile float* const weights = model.state()[0].weights[0];
  EXPECT_EXIT(std::exit(static_cast<int>(*weights)), testing::KilledBySignal(SIGSEGV), "");
}

/// Applies steps without gradients, so that nothing but a fault is to be seen. Returns what the
/// last one has found.
std::vector<std::string> damaged_after(StageModel& model, std::int64_t first, std::int64_t last) {
  for (std::int64_t step = first; step <= last; ++step) {
    EXPECT_TRUE(model.damaged().empty()) << "before step " << step;
    model.apply(skipped_record(step));
  }
  return model.damaged();
}

TEST_P(Decks, MemoryThatChangesWhatPassesReadIsFoundInOneTensor) {
  const auto backend = ready_backend(deck());
  const bool delayed = deck().train.delay() > 1;
  for (const FaultyPart part : {FaultyPart::oldest, FaultyPart::copies}) {
    if (part == FaultyPart::copies && GetParam() == std::string("native")) continue;  // has none
    if (part == FaultyPart::oldest && !delayed) continue;  // is the newest, which is not compared
    for (const std::uint64_t seed : {1, 2, 3}) {
      LocalTrainer trainer(deck(), *backend, 1, 0);
      trainer.train(3);
      StageModel& model = *trainer.models()[0];
      const FlippedBit bit = model.flip(seed, part);
      // With delayed updates the newest weights' copies are read until the step after the next.
      const std::int64_t found = part == FaultyPart::copies && delayed ? 5 : 4;
      EXPECT_EQ(damaged_after(model, 4, found), std::vector{bit.tensor});
    }
  }
}

// Its damage goes into the next version's hash: a row of that would stand in the journal when the
// resumed run comes to another.
TEST(StageModel, WithDelayedUpdatesMemoryThatChangesTheNewestWeightsIsFoundByTheNextUpdate) {
  Config config = tiny_deck();
  config.train.updates = Updates::delayed;
  const auto backend = ready_backend(config);
  LocalTrainer trainer(config, *backend, 1, 0);
  trainer.train(3);
  StageModel& model = *trainer.models()[0];
  const TensorState tensor = model.state()[2];
  const float first = read_array(*backend, tensor.weights[0], 1).front();
  write_array(*backend, tensor.weights[0], {first + 1});
  EXPECT_EQ(damaged_after(model, 4, 4), std::vector{tensor.name});
}

/// One stage with synthetic inputs and output gradients: what its passes of step 1 return.
class LoneStage {
 public:
  LoneStage(const Config& config, kernels::Backend& backend, const StageSpec& spec,
            std::int64_t slots)
      : config_(config),
        model_(config, spec, backend, slots),
        exponents_(model_tensors(config).size(), std::int16_t{0}),
        backend_(backend),
        shape_(config, spec),
        bytes_(boundary_bytes(config)) {
    EXPECT_TRUE(model_.initialize().ok());
  }

  struct Answer {
    std::vector<std::byte> boundary;  // y or dx
    double loss_nats = 0;
    std::vector<std::int16_t> exponents;
    bool operator==(const Answer&) const = default;
  };
  Answer forward(std::int32_t index) {
    Answer answer;
    if (spec().has_head) return answer;  // as in a run: all is done in the backward pass
    const Text text(config_, 1, index);
    model_.forward(work(index), text.tokens, text.targets, input(index),
                   room_in(answer.boundary, bytes_.activations));
    return answer;
  }
  Answer backward(std::int32_t index) {
    Answer answer;
    const Text text(config_, 1, index);
    const auto [loss_nats, contributions, with_forward] =
        model_.backward(work(index), text.tokens, text.targets, input(index), gradient(index),
                        input_gradient_in(answer), exponents_);
    answer.loss_nats = loss_nats;
    for (const kernels::Contribution& c : contributions) {
      EXPECT_FALSE(c.flagged());
      answer.exponents.push_back(c.exponent);
    }
    return answer;
  }
  Answer backward_again(std::int32_t index) {
    Answer answer;
    const Text text(config_, 1, index);
    answer.loss_nats = model_
                           .backward_again(work(index), text.tokens, text.targets, input(index),
                                           gradient(index), input_gradient_in(answer))
                           .loss_nats;
    return answer;
  }
  /// The step's sums as they are.
  std::vector<std::byte> sums() {
    const PayloadRef packed = model_.share(Step(1), all_blocks(), {}, payloads_).sums;
    return {packed->data(), packed->data() + packed->size_bytes()};
  }
  /// Applies the step; returns the hashes of the state.
  std::vector<std::uint64_t> apply() {
    model_.reduce(Step(1), all_blocks(), {}, exponents_, 42);
    CommitRecord record;
    record.step = Step(1);
    record.lr = 1e-2f;
    record.correction1 = 0.1f;
    record.correction2 = 0.05f;
    return model_.apply(record);
  }
  const StageSpec& spec() const { return model_.spec(); }

 private:
  static WorkId work(std::int32_t index) { return {{Step(1), Purpose::train, index}, StageId(0)}; }
  BlockRange all_blocks() const { return {0, static_cast<std::int64_t>(model_.blocks().size())}; }
  static std::byte* room_in(std::vector<std::byte>& buffer, std::int64_t bytes) {
    buffer.resize(as_size(bytes));
    return buffer.data();
  }
  std::byte* input_gradient_in(Answer& answer) const {
    return spec().has_embedding ? nullptr : room_in(answer.boundary, bytes_.gradients);
  }
  const std::byte* input(std::int32_t index) {
    const BoundaryFormat format = shape_.activations_format();
    return spec().has_embedding ? nullptr : synthetic(input_, format, index * 3 + 1, 1.0f);
  }
  const std::byte* gradient(std::int32_t index) {
    const BoundaryFormat format = shape_.gradients_format();
    return spec().has_head ? nullptr : synthetic(gradient_, format, index * 3 + 2, 0.01f);
  }
  const std::byte* synthetic(std::vector<std::byte>& buffer, const BoundaryFormat& format,
                             std::int32_t salt, float scale) const {
    std::vector<float> values(as_size(shape_.rows * shape_.boundary_width));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = scale * (static_cast<float>((i * 37 + as_size(salt) * 11) % 101) - 50) / 50;
    }
    std::byte* const room = room_in(buffer, static_cast<std::int64_t>(format.size_bytes()));
    format.write(backend_, room, {values.data(), shape_.rows, shape_.boundary_width});
    backend_.finish();
    return room;
  }

  Config config_;
  StageModel model_;
  Exponents exponents_;
  kernels::Backend& backend_;
  StageShape shape_;
  BoundaryBytes bytes_;
  PayloadPool payloads_;
  std::vector<std::byte> input_, gradient_;
};

/// What the passes of microbatches 0 and 1 come to, done once each, with nothing kept.
struct Expected {
  explicit Expected(LoneStage stage) {
    forward = {stage.forward(0), stage.forward(1)};
    none = stage.sums();
    backward.push_back(stage.backward(0));
    first = stage.sums();
    backward.push_back(stage.backward(1));
    both = stage.sums();
    state = stage.apply();
  }
  /// What a backward pass returns that adds nothing.
  LoneStage::Answer again(std::size_t index) const {
    LoneStage::Answer answer = backward[index];
    answer.exponents.clear();
    return answer;
  }
  std::vector<LoneStage::Answer> forward, backward;
  std::vector<std::byte> none, first, both;  // sums
  std::vector<std::uint64_t> state;
};

class RepeatedPasses : public Decks {
 protected:
  /// Calls test(stage, expected) for every stage, keeping no activations, too few, and enough.
  template <class Test>
  void for_each_stage(const Test& test) const {
    Config config = deck();
    config.swarm.stages = stage_counts().back();
    const auto backend = ready_backend(config);
    for (const StageSpec& spec : partition_model(config)) {
      const Expected expected(LoneStage(config, *backend, spec, 0));
      EXPECT_NE(expected.first, expected.none);
      for (const std::int64_t slots : {0, 1, 8}) {
        SCOPED_TRACE(testing::Message() << "stage " << spec.stage << ", " << slots << " slots");
        LoneStage stage(config, *backend, spec, slots);
        test(stage, expected);
        EXPECT_EQ(stage.apply(), expected.state);
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(All, RepeatedPasses,
                         testing::Values("plain", "shared", "delayed", "bf16", "native",
                                         "native_bf16", "coded", "native_coded", "bottleneck",
                                         "maxout", "native_bottleneck", "native_maxout_bf16",
                                         "native_bottleneck_bf16", "maxout_coded"),
                         [](const auto& deck) { return std::string(deck.param); });

TEST_P(RepeatedPasses, ABackwardPassNeedsNoForwardPass) {
  for_each_stage([](LoneStage& stage, const Expected& expected) {
    EXPECT_EQ(stage.backward(1), expected.backward[1]);
    EXPECT_EQ(stage.forward(0), expected.forward[0]);
    EXPECT_EQ(stage.backward(0), expected.backward[0]);
    EXPECT_EQ(stage.sums(), expected.both);
  });
}

TEST_P(RepeatedPasses, ABackwardPassAgainLeavesTheSumsAsTheyAre) {
  for_each_stage([](LoneStage& stage, const Expected& expected) {
    EXPECT_EQ(stage.backward_again(0), expected.again(0));
    EXPECT_EQ(stage.sums(), expected.none);
    EXPECT_EQ(stage.forward(0), expected.forward[0]);
    EXPECT_EQ(stage.backward(0), expected.backward[0]);
    EXPECT_EQ(stage.sums(), expected.first);
    EXPECT_EQ(stage.backward_again(0), expected.again(0));
    EXPECT_EQ(stage.forward(0), expected.forward[0]);
    EXPECT_EQ(stage.backward_again(0), expected.again(0));
    EXPECT_EQ(stage.backward_again(1), expected.again(1));
    EXPECT_EQ(stage.sums(), expected.first);
    EXPECT_EQ(stage.backward(1), expected.backward[1]);
  });
}

TEST_P(RepeatedPasses, AForwardPassMayComeTwiceAndAfterTheBackwardPass) {
  for_each_stage([](LoneStage& stage, const Expected& expected) {
    for (const std::int32_t index : {0, 1, 0, 1}) {
      EXPECT_EQ(stage.forward(index), expected.forward[as_size(index)]);
    }
    EXPECT_EQ(stage.backward(0), expected.backward[0]);
    EXPECT_EQ(stage.forward(0), expected.forward[0]);  // never used
    EXPECT_EQ(stage.forward(1), expected.forward[1]);
    EXPECT_EQ(stage.backward(1), expected.backward[1]);
    EXPECT_EQ(stage.sums(), expected.both);
  });
}

TEST(DelayedUpdates, AStepComputesOnTheWeightsTwoStepsBefore) {
  Config config = tiny_deck();
  config.train.updates = Updates::delayed;
  const auto backend = ready_backend(config);
  LocalTrainer trained(config, *backend, 1, 0);
  LocalTrainer untrained(config, *backend, 1, 0);
  const std::vector<Row> rows = trained.train(4);
  EXPECT_EQ(rows[1].loss, untrained.compute(1).loss);
  EXPECT_EQ(rows[2].loss, untrained.compute(2).loss);  // w(0) again
  // Step 4 on w(2): the same as w(2) on that data in a run that ends there.
  LocalTrainer until_two(config, *backend, 1, 0);
  until_two.train(2);
  EXPECT_EQ(rows[4].loss, until_two.compute(4).loss);
  EXPECT_NE(rows[4].loss, until_two.compute(3).loss);
}

Config coded_deck(Codec activations, Codec gradients) {
  Config config = tiny_deck();
  config.swarm.compress_activations = activations;
  config.swarm.compress_gradients = gradients;
  return config;
}

TEST(Boundaries, OneStageHasNoneToCode) {
  const std::vector<Row> plain = trained(tiny_deck(), 1, 0);
  EXPECT_EQ(trained(coded_deck(Codec::fp16, Codec::uniform8), 1, 0), plain);
}

TEST(Boundaries, EachDirectionIsCodedOnItsOwnAndRecomputationChangesNoBit) {
  const std::vector<Row> plain = trained(tiny_deck(), 2, 0);
  for (const Codec codec : {Codec::fp16, Codec::bf16, Codec::uniform8, Codec::blockwise8}) {
    const std::vector<Row> there = trained(coded_deck(codec, Codec::none), 2, 0);
    const std::vector<Row> back = trained(coded_deck(Codec::none, codec), 2, 0);
    EXPECT_NE(there[1].loss, plain[1].loss) << name_of(codec);
    EXPECT_EQ(back[1].loss, plain[1].loss) << name_of(codec);
    EXPECT_NE(back[1].state_hash, plain[1].state_hash) << name_of(codec);
    for (const std::int64_t slots : {1, 8}) {
      EXPECT_EQ(trained(coded_deck(codec, Codec::none), 2, slots), there) << name_of(codec);
      EXPECT_EQ(trained(coded_deck(Codec::none, codec), 2, slots), back) << name_of(codec);
    }
  }
}

TEST(Boundaries, TheModelLearnsThroughAnyCodec) {
  for (const Codec codec : {Codec::fp16, Codec::bf16, Codec::uniform8, Codec::blockwise8}) {
    Config config = coded_deck(codec, codec);
    config.train.steps = 150;
    const std::vector<Row> rows = trained(config, 3, 0, config.train.steps);
    EXPECT_LT(rows.back().loss, 0.5 * rows.front().loss) << name_of(codec);
  }
}

Config learned_deck(Boundary boundary) {
  Config config = tiny_deck();
  config.swarm.boundary = boundary;
  return config;
}

TEST(Boundaries, LearnedOnesOfOneStageAreNone) {
  const std::vector<Row> plain = trained(tiny_deck(), 1, 0);
  EXPECT_EQ(trained(learned_deck(Boundary::bottleneck), 1, 0), plain);
  EXPECT_EQ(trained(learned_deck(Boundary::maxout), 1, 0), plain);
}

TEST(Boundaries, AllOtherTensorsBeginAsWithPlainOnes) {
  const auto backend = ready_backend(tiny_deck());
  LocalTrainer plain(tiny_deck(), *backend, 3, 0);
  for (const Boundary boundary : {Boundary::bottleneck, Boundary::maxout}) {
    LocalTrainer learned(learned_deck(boundary), *backend, 3, 0);
    for (std::size_t s = 0; s < 3; ++s) {
      const auto expected = plain.models()[s]->tensor_hashes();
      const auto hashes = learned.models()[s]->tensor_hashes();
      ASSERT_GT(hashes.size(), expected.size() - (s < 2 ? 1 : 0));
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), hashes.begin()));
    }
  }
}

TEST(Boundaries, TheModelLearnsThroughLearnedOnes) {
  for (const Boundary boundary : {Boundary::bottleneck, Boundary::maxout}) {
    for (const Codec codec : {Codec::none, Codec::blockwise8}) {
      Config config = learned_deck(boundary);
      config.swarm.compress_activations = config.swarm.compress_gradients = codec;
      config.train.steps = 150;
      const std::vector<Row> rows = trained(config, 3, 0, config.train.steps);
      EXPECT_LT(rows.back().loss, 0.5 * rows.front().loss) << name_of(boundary);
      EXPECT_EQ(trained(config, 3, 8), std::vector<Row>(rows.begin(), rows.begin() + 7));
    }
  }
}

TEST(Boundaries, WhatFp16CannotHoldIsAFlagAndNoUpdate) {
  Config config = coded_deck(Codec::fp16, Codec::none);
  config.swarm.fp16_scale = 0x1p40;
  EXPECT_TRUE(trained(config, 2, 0, 1)[1].skipped);
  config = coded_deck(Codec::none, Codec::fp16);
  config.swarm.fp16_scale = 0x1p40;
  EXPECT_TRUE(trained(config, 2, 0, 1)[1].skipped);
}

// Two stages, and what crosses between them: one number in it is not finite.
class OddCrossing {
 public:
  OddCrossing(const Config& config, float odd)
      : config_(config), backend_(ready_backend(config)), odd_(odd) {
    config_.swarm.stages = 2;
    for (StageSpec& spec : partition_model(config_)) {
      stages_.push_back(std::make_unique<StageModel>(config_, std::move(spec), *backend_, 1));
      EXPECT_TRUE(stages_.back()->initialize().ok());
    }
  }

  /// Whether a gradient of the last stage is flagged, which gets it as its input.
  bool is_flagged_there() {
    const std::vector<std::byte> x = crossing(activation_coding(config_.swarm));
    std::vector<std::byte> dx(as_size(boundary_bytes(config_).gradients));
    return is_flagged(1, x.data(), nullptr, dx.data());
  }
  /// Whether a gradient of the first stage is flagged, which gets it as its output's gradient.
  bool is_flagged_back() {
    const std::vector<std::byte> dy = crossing(gradient_coding(config_.swarm));
    return is_flagged(0, nullptr, dy.data(), nullptr);
  }

 private:
  std::vector<std::byte> crossing(std::optional<kernels::Coding> coding) {
    const bool narrow = config_.swarm.boundary != Boundary::plain;
    const std::int64_t rows = config_.train.microbatch_size * config_.model.context;
    const std::int64_t columns = config_.model.width / (narrow ? config_.swarm.boundary_factor : 1);
    std::vector<float> values(as_size(rows * columns));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 7) * 0.1F - 0.3F;
    }
    values[values.size() / 2] = odd_;
    const BoundaryFormat format(rows, columns, coding);
    std::vector<std::byte> bytes(format.size_bytes());
    format.write(*backend_, bytes.data(), {values.data(), rows, columns});
    backend_->finish();
    return bytes;
  }

  bool is_flagged(std::int32_t stage, const std::byte* x, const std::byte* dy, std::byte* dx) {
    const Text text(config_, 1, 0);
    const Exponents none(model_tensors(config_).size(), kernels::kNoExponent);
    const auto answer = stages_[as_size(stage)]->backward(
        {{Step(0), Purpose::train, 0}, StageId(stage)}, text.tokens, text.targets, x, dy, dx, none);
    return std::any_of(answer.contributions.begin(), answer.contributions.end(),
                       [](const auto& contribution) { return contribution.nonfinite; });
  }

  Config config_;
  std::unique_ptr<kernels::Backend> backend_;
  float odd_;
  std::vector<std::unique_ptr<StageModel>> stages_;
};

TEST(Boundaries, WhatIsNotFiniteStaysAFlagBehindAnyCodecAndLearnedBoundary) {
  for (const Codec codec :
       {Codec::none, Codec::fp16, Codec::bf16, Codec::uniform8, Codec::blockwise8}) {
    for (const Boundary boundary : {Boundary::plain, Boundary::bottleneck, Boundary::maxout}) {
      Config config = coded_deck(codec, codec);
      config.swarm.boundary = boundary;
      const std::string what = name_of(codec) + ", " + name_of(boundary);
      OddCrossing finite(config, 0.25F);
      EXPECT_FALSE(finite.is_flagged_there()) << what;
      EXPECT_FALSE(finite.is_flagged_back()) << what;
      for (const float odd : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
        EXPECT_TRUE(OddCrossing(config, odd).is_flagged_there()) << what << " " << odd;
        EXPECT_TRUE(OddCrossing(config, odd).is_flagged_back()) << what << " " << odd;
      }
    }
  }
}

TEST(Overflow, AGradientBeyondTheHeadroomIsFlaggedAndAddsNothing) {
  const Config config = tiny_deck();
  const auto backend = ready_backend(config);
  StageModel model(config, partition_model(config.model, 1).front(), *backend, 0);
  EXPECT_TRUE(model.initialize().ok());
  const Text text(config, 1, 0);
  const Exponents low(model.spec().tensors.size(), -60);
  const WorkId work{{Step(1), Purpose::train, 0}, StageId(0)};
  const auto answer = model.backward(work, text.tokens, text.targets, {}, {}, {}, low);
  for (const auto& contribution : answer.contributions) EXPECT_TRUE(contribution.overflow);
  for (const double square : model.reduce(Step(1), low, 14)) EXPECT_EQ(square, 0.0);
}

}  // namespace
}  // namespace swarmpi::test::stage_model_test
