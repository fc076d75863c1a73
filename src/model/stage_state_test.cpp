// A stage's state taken over piece by piece while training goes on, and stages that begin anew.

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/packed_sums.hpp"
#include "model/local_trainer_test.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::test::stage_state_test {
namespace {

using Hashes = std::vector<std::uint64_t>;
using Models = std::vector<std::unique_ptr<StageModel>>;

class StageStates : public testing::TestWithParam<const char*> {
 protected:
  Config deck() const {
    Config config = tiny_deck();
    config.model.width = 40;  // tensors of more than one block
    config.model.ffn = 110;
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

/// A copy of some blocks' state.
struct Piece {
  BlockRange blocks;
  Step step;
  std::uint64_t hash = 0;
  std::vector<float> state;
};
Piece read_piece(const StageModel& from, const BlockRange& blocks, std::int64_t step) {
  Piece piece{blocks, Step(step), 0, std::vector<float>(from.piece_bytes(blocks) / sizeof(float))};
  piece.hash = from.read_piece(blocks, piece.state.data());
  return piece;
}
void write_piece(StageModel& to, const Piece& piece, std::span<const MissedUpdate> missed = {}) {
  EXPECT_TRUE(to.write_piece(piece.blocks, piece.step, piece.hash, piece.state.data(), missed));
}

/// Fills the state with values that a correct learner never uses.
void spoil(StageModel& model) {
  for (const TensorState& tensor : model.state()) {
    const std::vector<float> odd(as_size(tensor.count()), NAN);
    for (float* weights : tensor.weights) write_array(model.backend(), weights, odd);
    write_array(model.backend(), tensor.moment1, odd);
    write_array(model.backend(), tensor.moment2, odd);
  }
}

void overwrite(StageModel& with, StageModel& by) {
  const std::vector<TensorState> to = with.state(), from = by.state();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::int64_t count = to[i].count();
    for (std::size_t v = 0; v < to[i].weights.size(); ++v) {
      copy_array(with.backend(), to[i].weights[v], from[i].weights[v], count);
    }
    copy_array(with.backend(), to[i].moment1, from[i].moment1, count);
    copy_array(with.backend(), to[i].moment2, from[i].moment2, count);
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

/// A run, and for each of its stages a learner: gets pieces from it, and its records and reduced
/// gradients, when the test likes. A piece is one block.
class Learning {
 public:
  Learning(const Config& config, kernels::Backend& backend, Models learners)
      : run_(config, backend, static_cast<std::int64_t>(learners.size()), 1),
        learners_(std::move(learners)) {
    for (const auto& learner : learners_) {
      here_.emplace_back(learner->blocks().size());
      taken_.emplace_back();
      spoil(*learner);
    }
    run_.on_commit([this](const CommitRecord& record) { remember(record); });
  }

  std::vector<Row> train(std::int64_t last) {
    std::vector<Row> rows;
    while (std::ssize(commits_) <= last) {
      for (const Row& row : run_.train(std::ssize(commits_))) rows.push_back(row);
      for (const auto& model : run_.models()) {
        commits_.back().ratios.push_back(model->trust_ratios());
      }
    }
    return rows;
  }
  void prepare(std::int64_t step) {
    for (auto& learner : learners_) learner->prepare(Step(step));
  }
  /// Reads every third block, as it is after `step`, the run's last one.
  void take(std::size_t first, std::int64_t step) {
    for (std::size_t s = 0; s < learners_.size(); ++s) {
      for (std::size_t b = first; b < here_[s].size(); b += 3) {
        const auto block = static_cast<std::int64_t>(b);
        taken_[s].push_back(read_piece(*run_.models()[s], {block, block + 1}, step));
      }
    }
  }
  /// Writes what was taken, with the updates up to `step`, the learners' last one.
  void write(std::int64_t step) {
    for (std::size_t s = 0; s < learners_.size(); ++s) {
      for (const Piece& piece : std::exchange(taken_[s], {})) {
        write_piece(*learners_[s], piece, missed(s, piece, step));
        here_[s][as_size(piece.blocks.first)] = true;
        complete(s, piece);
      }
    }
  }
  void copy(std::size_t first, std::int64_t step) {
    take(first, step);
    write(step);
  }
  /// `expected`: hashes of all tensors after the step.
  void apply(std::int64_t step, const std::vector<Hashes>& expected) {
    const Commit& commit = commits_.at(as_size(step));
    for (std::size_t s = 0; s < learners_.size(); ++s) {
      learners_[s]->place(all_blocks(*learners_[s]), commit.gradients[s].data());
      PartialState partial{{}, {}, commit.ratios[s]};
      for (std::size_t b = 0; b < here_[s].size(); ++b) {
        const auto block = static_cast<std::int64_t>(b);
        if (!here_[s][b]) continue;
        if (partial.here.empty() || partial.here.back().end < block) {
          partial.here.push_back({block, block});
        }
        partial.here.back().end = block + 1;
      }
      const Hashes hashes = learners_[s]->apply(commit.record, &partial);
      ASSERT_EQ(hashes.size(), expected[s].size());
      for (std::size_t i = 0; i < hashes.size(); ++i) {
        EXPECT_EQ(hashes[i], is_whole(s, i) ? expected[s][i] : 0)
            << "step " << step << " tensor " << i;
      }
    }
  }
  /// Of the run's stages.
  std::vector<Hashes> hashes() { return hashes_of(run_.models()); }
  std::vector<Hashes> learned_hashes() const { return hashes_of(learners_); }
  /// From now on the run computes with what was learned.
  void take_over() { std::swap(run_.models(), learners_); }
  /// Whether any tensor is here in part.
  bool has_parts() const {
    for (std::size_t s = 0; s < learners_.size(); ++s) {
      for (std::size_t b = 0; b < here_[s].size(); ++b) {
        if (here_[s][b] && !is_whole(s, as_size(learners_[s]->blocks()[b].tensor))) return true;
      }
    }
    return false;
  }

 private:
  struct Commit {
    CommitRecord record;
    std::vector<std::vector<float>> gradients;  // by stage
    std::vector<std::vector<float>> ratios;     // likewise
  };
  static std::vector<Hashes> hashes_of(const Models& models) {
    std::vector<Hashes> list;
    for (const auto& model : models) list.push_back(model->tensor_hashes());
    return list;
  }
  void remember(const CommitRecord& record) {
    Commit commit{record, {}, {}};
    for (const auto& model : run_.models()) {
      const BlockRange all = all_blocks(*model);
      commit.gradients.emplace_back(as_size(elements_of(model->blocks(), all)));
      model->copy_gradient(all, commit.gradients.back().data());
    }
    commits_.push_back(std::move(commit));
  }
  bool is_whole(std::size_t stage, std::size_t tensor) const {
    const auto& blocks = learners_[stage]->blocks();
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (as_size(blocks[b].tensor) == tensor && !here_[stage][b]) return false;
    }
    return true;
  }
  void complete(std::size_t stage, const Piece& piece) {
    const auto block = as_size(piece.blocks.first);
    const auto tensor = as_size(learners_[stage]->blocks()[block].tensor);
    if (is_whole(stage, tensor)) learners_[stage]->complete_tensor(tensor);
  }
  std::vector<MissedUpdate> missed(std::size_t stage, const Piece& piece, std::int64_t last) {
    std::vector<MissedUpdate> list;
    const auto& blocks = learners_[stage]->blocks();
    const std::int64_t first = elements_of(blocks, {0, piece.blocks.first});
    const std::int64_t count = elements_of(blocks, piece.blocks);
    for (std::int64_t step = piece.step.value + 1; step <= last; ++step) {
      const Commit& commit = commits_.at(as_size(step));
      const auto gradient = std::make_shared<Payload>(as_size(count) * sizeof(float));
      std::copy_n(commit.gradients[stage].data() + first, count, gradient->as<float>());
      const auto record = std::make_shared<const CommitRecord>(commit.record);
      list.push_back({record, commit.record.skipped ? nullptr : gradient, commit.ratios[stage]});
    }
    return list;
  }

  LocalTrainer run_;
  Models learners_;
  std::vector<std::vector<bool>> here_;    // by stage and block
  std::vector<std::vector<Piece>> taken_;  // by stage
  std::vector<Commit> commits_;            // by step
};

TEST_P(StageStates, WhatIsLearnedPieceByPieceWhileTrainingGoesOnIsTheSame) {
  const auto backend = ready_backend(deck());
  Learning learning(deck(), *backend, made(*backend));
  learning.train(1);
  learning.prepare(1);
  learning.copy(0, 1);
  EXPECT_TRUE(learning.has_parts());
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

// One, two and three updates are applied while pieces are under way.
TEST_P(StageStates, APieceOfAnOlderStateIsBroughtUpToDate) {
  const auto backend = ready_backend(deck());
  Learning learning(deck(), *backend, made(*backend));
  learning.prepare(-1);
  learning.take(0, -1);
  const auto initial = learning.hashes();
  learning.train(0);
  learning.apply(0, initial);
  learning.write(0);
  learning.take(1, 0);
  for (const std::int64_t step : {1, 2, 3}) {
    learning.train(step);
    learning.apply(step, learning.hashes());
    if (step == 1) learning.take(2, 1);
  }
  learning.write(3);
  EXPECT_EQ(learning.learned_hashes(), learning.hashes());
  learning.take_over();
  LocalTrainer undisturbed(deck(), *backend, kStages, 0);
  undisturbed.train(3);
  EXPECT_EQ(learning.train(6), undisturbed.train(6));
}

TEST_P(StageStates, ASkippedStepPassesALearnersPiecesOnAsTheyAre) {
  const auto backend = ready_backend(deck());
  LocalTrainer run(deck(), *backend, 1, 0);
  run.train(3);
  StageModel& from = *run.models().front();
  StageModel learner(deck(), from.spec(), *backend, 0);
  spoil(learner);
  learner.prepare(Step(3));
  const std::int64_t end = std::ssize(from.blocks());
  const Piece here = read_piece(from, {0, end / 3}, 3);
  const Piece missed = read_piece(from, {end / 3, end / 2}, 3);
  write_piece(learner, here);
  CommitRecord record;
  record.skipped = true;
  record.step = Step(4);
  const Hashes expected = from.apply(record);
  const PartialState partial{{here.blocks}, {}, {}};
  learner.apply(record, &partial);
  write_piece(learner, missed,
              std::vector<MissedUpdate>{{std::make_shared<CommitRecord>(record), nullptr, {}}});
  write_piece(learner, read_piece(from, {end / 2, end}, 4));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(learner.complete_tensor(i), expected[i]);
  }
  EXPECT_EQ(learner.tensor_hashes(), expected);
  const Text text(deck(), 1, 0);
  for (std::int64_t age = 0; age < deck().train.delay(); ++age) {
    const WorkId work{{Step(4 - age + deck().train.delay()), Purpose::validate, 0}, StageId(0)};
    EXPECT_EQ(learner.forward(work, text.tokens, text.targets, {}, {}),
              from.forward(work, text.tokens, text.targets, {}, {}));
  }
}

TEST(StageState, APieceComesAsItIsWritten) {
  Config config = tiny_deck();
  config.train.updates = Updates::delayed;
  const auto backend = ready_backend(config);
  StageModel model(config, partition_model(config.model, 1).front(), *backend, 0);
  model.prepare(Step(7));
  // Any bits, those of NaNs and of denormal numbers among them.
  const BlockRange blocks{3, 4};
  Piece written{blocks, Step(7), 0, std::vector<float>(model.piece_bytes(blocks) / sizeof(float))};
  for (std::size_t i = 0; i < written.state.size(); ++i) {
    const auto bits = static_cast<std::uint32_t>(i * 0x9e3779b9u) ^ (i % 3 == 0 ? 0x7f800000u : 0);
    std::memcpy(&written.state[i], &bits, sizeof bits);
  }
  EXPECT_FALSE(model.write_piece(blocks, Step(7), 0, written.state.data(), {}))
      << "that is not its hash";
  const Piece read = read_piece(model, blocks, 7);
  EXPECT_EQ(std::memcmp(read.state.data(), written.state.data(), model.piece_bytes(blocks)), 0);

  const TensorState tensor = model.state()[3];
  const auto count = as_size(tensor.count());
  EXPECT_EQ(written.state.size(), 4 * count);
  std::size_t first = 0;
  for (const float* array :
       {tensor.weights[0], tensor.weights[1], tensor.moment1, tensor.moment2}) {
    const std::vector<float> there = read_array(*backend, array, tensor.count());
    EXPECT_EQ(std::memcmp(there.data(), &written.state[first], count * sizeof(float)), 0) << first;
    first += count;
  }
}

TEST(StageState, WhatCannotBeLearnedIsRefused) {
  const Config config = tiny_deck();
  const auto backend = ready_backend(config);
  StageModel model(config, partition_model(config.model, 1).front(), *backend, 0);
  model.prepare(Step(7));
  Piece piece = read_piece(model, {0, 1}, 7);
  const auto write = [&](std::span<const MissedUpdate> missed) {
    return model.write_piece(piece.blocks, piece.step, piece.hash, piece.state.data(), missed);
  };
  piece.step = Step(6);
  EXPECT_DEATH((void)write({}), "is brought up to step 6, the others are after 7");
  const auto record = std::make_shared<CommitRecord>();
  record->step = Step(7);
  record->skipped = true;
  piece.step = Step(5);
  const std::vector<MissedUpdate> gap{{record, nullptr, {}}};
  EXPECT_DEATH((void)write(gap), "is applied in order");
  EXPECT_DEATH((void)model.piece_bytes({0, 1000}), "blocks of this stage");
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
      EXPECT_TRUE(model->initialize().ok());
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
      overwrite(model, *there.models()[s]);
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
  EXPECT_TRUE(fresh.initialize().ok());
  EXPECT_TRUE(lost.initialize().ok());
  const Text text(config, 1, 0), other_text(config, 2, 0);
  std::vector<float> output(text.tokens.size() * as_size(config.model.width), 0.5f);
  auto* const y = reinterpret_cast<std::byte*>(output.data());
  const WorkId work{{Step(1), Purpose::train, 0}, StageId(0)};
  lost.forward(work, other_text.tokens, other_text.targets, {}, y);
  EXPECT_TRUE(lost.initialize().ok());

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
}  // namespace swarmpi::test::stage_state_test
