// A stage's state taken over tensor by tensor while training goes on, and stages that begin anew.

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/packed_sums.hpp"
#include "model/local_trainer_test.hpp"

namespace swarmpi::test {
namespace {

using Hashes = std::vector<std::uint64_t>;
using Models = std::vector<std::unique_ptr<StageModel>>;

class StageStates : public testing::TestWithParam<const char*> {
 protected:
  Config deck() const {
    Config config = tiny_deck();
    const auto has = [name = std::string(GetParam())](const char* word) {
      return name.find(word) != std::string::npos;
    };
    if (has("shared")) config.model.shared_groups = 2;
    if (has("delayed")) config.train.updates = Updates::delayed;
    if (has("lamb")) config.train.optimizer = Optimizer::lamb;
    if (has("bf16")) config.model.precision = Precision::bf16;
    if (has("native")) config.compute.kernels = Kernels::native;
    return config;
  }
  Models made(kernels::Backend& backend) const {
    Models models;
    for (const StageSpec& spec : partition_model(deck().model, kStages)) {
      models.push_back(std::make_unique<StageModel>(deck(), spec, backend, 8));
    }
    return models;
  }
  static constexpr std::int64_t kStages = 2;
};

INSTANTIATE_TEST_SUITE_P(All, StageStates,
                         testing::Values("adamw", "lamb", "delayed", "bf16", "shared", "native",
                                         "native_delayed_bf16", "delayed_lamb_shared_bf16"),
                         [](const auto& deck) { return std::string(deck.param); });

void copy_tensor(const StageModel& from, StageModel& to, std::size_t place, std::int64_t step) {
  std::vector<float> state(from.tensor_bytes(place) / sizeof(float));
  from.read_tensor(place, state.data());
  EXPECT_EQ(to.write_tensor(place, Step(step), state.data()), from.tensor_hashes()[place]);
}

/// Fills the state with values that a correct learner never uses.
void spoil(StageModel& model) {
  for (const TensorState& tensor : model.state()) {
    const std::int64_t count = tensor.count();
    for (float* weights : tensor.weights) std::fill_n(weights, count, NAN);
    std::fill_n(tensor.moment1, count, NAN);
    std::fill_n(tensor.moment2, count, NAN);
  }
}

void overwrite(const std::vector<TensorState>& to, const std::vector<TensorState>& from) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::int64_t count = to[i].count();
    for (std::size_t v = 0; v < to[i].weights.size(); ++v) {
      std::copy_n(from[i].weights[v], count, to[i].weights[v]);
    }
    std::copy_n(from[i].moment1, count, to[i].moment1);
    std::copy_n(from[i].moment2, count, to[i].moment2);
  }
}

BlockRange all_blocks(const StageModel& model) {
  return {0, static_cast<std::int64_t>(model.blocks().size())};
}

/// Neither sums of any open step nor a reduced gradient.
void expect_no_progress(StageModel& model) {
  const BlockRange all = all_blocks(model);
  std::vector<float> gradient(as_size(elements_of(model.blocks(), all)));
  model.copy_gradient(all, gradient.data());
  EXPECT_EQ(std::count(gradient.begin(), gradient.end(), 0.0f), std::ssize(gradient));
  PayloadPool payloads;
  for (const std::int64_t step : {1, 2}) {
    const std::size_t size_bytes = model.share(Step(step), all, {}, payloads).sums->size_bytes();
    EXPECT_EQ(size_bytes, kernels::packed_frame_bytes(all.end)) << "nothing but zeros";
  }
}

/// A run, and for each of its stages a learner: gets tensors from it, and its records and reduced
/// gradients, when the test likes.
class Learning {
 public:
  Learning(const Config& config, kernels::Backend& backend, Models learners)
      : run_(config, backend, static_cast<std::int64_t>(learners.size()), 1),
        learners_(std::move(learners)) {
    for (const auto& learner : learners_) {
      here_.emplace_back(learner->spec().tensors.size());
      spoil(*learner);
    }
    run_.on_commit([this](const CommitRecord& record) { remember(record); });
  }

  std::vector<Row> train(std::int64_t last) { return run_.train(last); }
  void prepare(std::int64_t step) {
    for (auto& learner : learners_) learner->prepare(Step(step));
  }
  /// Every third tensor, as it is after `step`, the run's last one.
  void copy(std::size_t first, std::int64_t step) {
    for (std::size_t s = 0; s < learners_.size(); ++s) {
      for (std::size_t i = first; i < here_[s].size(); i += 3) {
        copy_tensor(*run_.models()[s], *learners_[s], i, step);
        here_[s][i] = true;
      }
    }
  }
  /// `expected`: hashes of all tensors after the step.
  void apply(std::int64_t step, const std::vector<Hashes>& expected) {
    const Commit& commit = commits_.at(as_size(step));
    for (std::size_t s = 0; s < learners_.size(); ++s) {
      learners_[s]->place(all_blocks(*learners_[s]), commit.gradients[s].data());
      const Hashes hashes = learners_[s]->apply(commit.record, here_[s]);
      ASSERT_EQ(hashes.size(), here_[s].size());
      for (std::size_t i = 0; i < hashes.size(); ++i) {
        EXPECT_EQ(hashes[i], here_[s][i] ? expected[s][i] : 0)
            << "step " << step << " tensor " << i;
      }
    }
  }
  /// The tensors are after `step` already when it is applied to those that came before.
  void copy_ahead(std::size_t first, std::int64_t step) {
    const auto before = here_;
    copy(first, step);
    const auto after = std::exchange(here_, before);
    apply(step, hashes());
    here_ = after;
  }
  /// Of the run's stages.
  std::vector<Hashes> hashes() { return hashes_of(run_.models()); }
  std::vector<Hashes> learned_hashes() const { return hashes_of(learners_); }
  /// From now on the run computes with what was learned.
  void take_over() { std::swap(run_.models(), learners_); }

 private:
  struct Commit {
    CommitRecord record;
    std::vector<std::vector<float>> gradients;  // by stage
  };
  static std::vector<Hashes> hashes_of(const Models& models) {
    std::vector<Hashes> list;
    for (const auto& model : models) list.push_back(model->tensor_hashes());
    return list;
  }
  void remember(const CommitRecord& record) {
    Commit commit{record, {}};
    for (const auto& model : run_.models()) {
      const BlockRange all = all_blocks(*model);
      commit.gradients.emplace_back(as_size(elements_of(model->blocks(), all)));
      model->copy_gradient(all, commit.gradients.back().data());
    }
    commits_.push_back(std::move(commit));
  }

  LocalTrainer run_;
  Models learners_;
  std::vector<std::vector<bool>> here_;  // by stage and place
  std::vector<Commit> commits_;          // by step
};

TEST_P(StageStates, WhatIsLearnedTensorByTensorWhileTrainingGoesOnIsTheSame) {
  const auto backend = ready_backend(deck());
  Learning learning(deck(), *backend, made(*backend));
  learning.train(1);
  learning.prepare(1);
  learning.copy(0, 1);
  learning.train(2);
  learning.apply(2, learning.hashes());
  learning.copy(1, 2);
  learning.train(3);
  learning.apply(3, learning.hashes());
  learning.copy(2, 3);
  EXPECT_EQ(learning.learned_hashes(), learning.hashes());
  learning.train(4);
  learning.apply(4, learning.hashes());

  // What the tensors are multiplied in, and older versions, are as good.
  learning.take_over();
  LocalTrainer undisturbed(deck(), *backend, kStages, 0);
  undisturbed.train(4);
  EXPECT_EQ(learning.train(7), undisturbed.train(7));
}

TEST_P(StageStates, ATensorMayComeBeforeItsStepIsAppliedToTheOthers) {
  const auto backend = ready_backend(deck());
  Learning learning(deck(), *backend, made(*backend));
  learning.train(1);
  learning.prepare(1);
  learning.copy(0, 1);
  for (const std::int64_t step : {2, 3}) {
    learning.train(step);
    learning.copy_ahead(as_size(step - 1), step);
  }
  EXPECT_EQ(learning.learned_hashes(), learning.hashes());
  learning.take_over();
  LocalTrainer undisturbed(deck(), *backend, kStages, 0);
  undisturbed.train(3);
  EXPECT_EQ(learning.train(6), undisturbed.train(6));
}

TEST_P(StageStates, AStageIsLearnedBeforeTheFirstStepToo) {
  const auto backend = ready_backend(deck());
  Learning learning(deck(), *backend, made(*backend));
  learning.prepare(-1);
  learning.copy(0, -1);
  learning.copy(1, -1);
  const auto initial = learning.hashes();
  learning.train(0);
  learning.apply(0, initial);
  learning.copy(2, 0);
  learning.train(1);
  learning.apply(1, learning.hashes());
  learning.take_over();
  LocalTrainer undisturbed(deck(), *backend, kStages, 0);
  undisturbed.train(1);
  EXPECT_EQ(learning.train(4), undisturbed.train(4));
}

TEST_P(StageStates, ASkippedStepPassesALearnersTensorsOnAsTheyAre) {
  const auto backend = ready_backend(deck());
  LocalTrainer run(deck(), *backend, 1, 0);
  run.train(3);
  StageModel& from = *run.models().front();
  StageModel learner(deck(), from.spec(), *backend, 0);
  spoil(learner);
  learner.prepare(Step(3));
  std::vector<bool> here(from.spec().tensors.size());
  for (std::size_t i = 0; i < here.size(); i += 2) {
    copy_tensor(from, learner, i, 3);
    here[i] = true;
  }
  CommitRecord record;
  record.skipped = true;
  record.step = Step(4);
  const Hashes expected = from.apply(record);
  const Hashes hashes = learner.apply(record, here);
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_EQ(hashes[i], here[i] ? expected[i] : 0);
  for (std::size_t i = 1; i < here.size(); i += 2) copy_tensor(from, learner, i, 4);
  EXPECT_EQ(learner.tensor_hashes(), expected);
  const Text text(deck(), 1, 0);
  for (std::int64_t age = 0; age < deck().train.delay(); ++age) {
    const WorkId work{{Step(4 - age + deck().train.delay()), Purpose::validate, 0}, StageId(0)};
    EXPECT_EQ(learner.forward(work, text.tokens, text.targets, {}, {}),
              from.forward(work, text.tokens, text.targets, {}, {}));
  }
}

TEST(StageState, ATensorsStateComesAsItIsWritten) {
  Config config = tiny_deck();
  config.train.updates = Updates::delayed;
  const auto backend = ready_backend(config);
  StageModel model(config, partition_model(config.model, 1).front(), *backend, 0);
  model.prepare(Step(7));
  // Any bits, those of NaNs and of denormal numbers among them.
  const std::size_t place = 3;
  std::vector<std::uint32_t> written(model.tensor_bytes(place) / sizeof(float));
  for (std::size_t i = 0; i < written.size(); ++i) {
    written[i] = static_cast<std::uint32_t>(i * 0x9e3779b9u) ^ (i % 3 == 0 ? 0x7f800000u : 0u);
  }
  std::vector<float> state(written.size());
  std::memcpy(state.data(), written.data(), model.tensor_bytes(place));
  model.write_tensor(place, Step(7), state.data());
  std::vector<float> read(written.size());
  model.read_tensor(place, read.data());
  EXPECT_EQ(std::memcmp(read.data(), written.data(), model.tensor_bytes(place)), 0);

  const TensorState tensor = model.state()[place];
  const auto count = as_size(tensor.count());
  EXPECT_EQ(written.size(), 4 * count);
  std::size_t first = 0;
  for (const float* array :
       {tensor.weights[0], tensor.weights[1], tensor.moment1, tensor.moment2}) {
    EXPECT_EQ(std::memcmp(array, &written[first], count * sizeof(float)), 0) << first;
    first += count;
  }
}

TEST(StageState, WhatCannotBeLearnedIsRefused) {
  const Config config = tiny_deck();
  const auto backend = ready_backend(config);
  StageModel model(config, partition_model(config.model, 1).front(), *backend, 0);
  model.prepare(Step(7));
  std::vector<float> state(model.tensor_bytes(0) / sizeof(float));
  EXPECT_DEATH(model.write_tensor(0, Step(6), state.data()), "comes too late");
  EXPECT_DEATH(model.tensor_bytes(1000), "a tensor of this stage");
  CommitRecord record;
  record.step = Step(8);
  EXPECT_DEATH(model.apply(record, {true}), "a choice for each tensor");
}

// ---- Stages that begin anew

/// Trains past `step` and stops amid the next: sums, kept activations and a reduced gradient are
/// left behind.
void get_lost(LocalTrainer& trainer, std::int64_t step) {
  trainer.train(step);
  trainer.compute(step + 1);
}

TEST_P(StageStates, AStageThatBeginsAnewTrainsAsAFreshOne) {
  const auto backend = ready_backend(deck());
  for (const std::int64_t lost_at : {2, 3}) {
    LocalTrainer lost(deck(), *backend, kStages, 8), fresh(deck(), *backend, kStages, 8);
    get_lost(lost, lost_at);
    for (auto& model : lost.models()) {
      model->initialize();
      expect_no_progress(*model);
    }
    LocalTrainer again(deck(), *backend, kStages, 8);
    std::swap(again.models(), lost.models());
    EXPECT_EQ(again.train(5), fresh.train(5));
  }
}

TEST_P(StageStates, BeforeAnyStepIsAsAfterStepZero) {
  const auto backend = ready_backend(deck());
  LocalTrainer loaded(deck(), *backend, kStages, 8), fresh(deck(), *backend, kStages, 8);
  for (auto& model : loaded.models()) model->loaded(Step(-1));
  EXPECT_EQ(loaded.train(3), fresh.train(3));
}

TEST_P(StageStates, AStageThatGoesBackToAStateTrainsAsOneThatCameThere) {
  const auto backend = ready_backend(deck());
  for (const std::int64_t back_to : {1, 2}) {
    LocalTrainer lost(deck(), *backend, kStages, 8), there(deck(), *backend, kStages, 8);
    get_lost(lost, 4);
    there.train(back_to);
    for (std::size_t s = 0; s < kStages; ++s) {
      StageModel& model = *lost.models()[s];
      overwrite(model.state(), there.models()[s]->state());
      model.loaded(Step(back_to));
      expect_no_progress(model);
      EXPECT_EQ(model.tensor_hashes(), there.models()[s]->tensor_hashes());
    }
    std::swap(there.models(), lost.models());
    LocalTrainer undisturbed(deck(), *backend, kStages, 8);
    undisturbed.train(back_to);
    EXPECT_EQ(there.train(6), undisturbed.train(6));
  }
}

TEST_P(StageStates, AStageThatBeginsAnewUsesNoActivationsFromBefore) {
  const Config config = deck();
  const auto backend = ready_backend(config);
  const StageSpec first = partition_model(config.model, kStages).front();
  StageModel lost(config, first, *backend, 8), fresh(config, first, *backend, 8);
  fresh.initialize();
  lost.initialize();
  const Text text(config, 1, 0), other_text(config, 2, 0);
  std::vector<float> output(text.tokens.size() * as_size(config.model.width), 0.5f);
  auto* const y = reinterpret_cast<std::byte*>(output.data());
  const WorkId work{{Step(1), Purpose::train, 0}, StageId(0)};
  lost.forward(work, other_text.tokens, other_text.targets, {}, y);
  lost.initialize();

  std::fill(output.begin(), output.end(), 0.5f);
  const Exponents exponents(model_tensors(config.model).size(), std::int16_t{2});
  PayloadPool payloads;
  const auto sums_of = [&](StageModel& model) {
    model.backward(work, text.tokens, text.targets, {}, y, {}, exponents);
    const PayloadRef sums = model.share(Step(1), all_blocks(model), {}, payloads).sums;
    return std::vector<std::byte>(sums->data(), sums->data() + sums->size_bytes());
  };
  EXPECT_EQ(sums_of(lost), sums_of(fresh));
}

}  // namespace
}  // namespace swarmpi::test
