// Whole trainings on a backend whose memory the host cannot touch: the bits of the plain reference,
// in rows, in the files of checkpoints, and in what goes on from there.

#include <gtest/gtest.h>

#include "config/deck.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/test_support.hpp"
#include "model/inference.hpp"
#include "model/local_trainer_test.hpp"
#include "runtime/assembly.hpp"

namespace swarmpi::test::guarded_training_test {
namespace {

constexpr std::int64_t kStages = 2, kSaved = 3, kLast = 5;

Config deck(const std::string& what) {
  Config config = tiny_deck();
  config.swarm.stages = kStages;
  if (what == "delayed") config.train.updates = Updates::delayed;
  if (what == "lamb") config.train.optimizer = Optimizer::lamb;
  if (what == "bf16") config.model.precision = Precision::bf16;
  if (what == "shared") config.model.shared_groups = 2;
  if (what == "coded") {
    config.swarm.compress_activations = Codec::blockwise8;
    config.swarm.compress_gradients = Codec::fp16;
  }
  if (what == "maxout") config.swarm.boundary = Boundary::maxout;
  if (what == "bottleneck") config.swarm.boundary = Boundary::bottleneck;
  return config;
}

class GuardedTraining : public ::testing::TestWithParam<const char*> {
 protected:
  GuardedTraining()
      : config_(deck(GetParam())),
        guarded_(ready_backend(config_)),
        plain_(make_backend(config_).value()) {}

  /// Writes a checkpoint of all stages; returns its files.
  std::vector<StoredFile> write(LocalTrainer& trainer, const std::string& folder) {
    const std::string path = checkpoint_path(folder, kSaved);
    std::vector<StoredFile> files;
    for (const auto& stage : trainer.models()) {
      files.push_back(
          write_stage_file(path, stage->spec().stage, 1, 0, stage->state(), stage->backend())
              .value());
    }
    CheckpointHead head;
    head.state.step = kSaved;
    head.deck = resolved_deck(config_);
    const Status status = write_manifest(path, head, {}, files, 1);
    EXPECT_TRUE(status.ok()) << status.message();
    return files;
  }

  std::vector<float> next_logits(const Checkpoint& checkpoint, kernels::Backend& backend) {
    Inference inference(config_, backend);
    for (TensorState& tensor : inference.weights()) {
      tensor.weights.resize(as_size(config_.train.delay()));
      EXPECT_TRUE(checkpoint.read(tensor, backend).ok());
    }
    inference.loaded();
    std::vector<float> logits(as_size(config_.model.vocab));
    inference.next_logits(std::vector<std::int32_t>{1, 4, 0}, logits);
    return logits;
  }

  Config config_;
  std::unique_ptr<kernels::Backend> guarded_, plain_;
};

TEST_P(GuardedTraining, HasTheBitsOfTheReference) {
  EXPECT_EQ(fingerprint(config_, *guarded_), fingerprint(config_, *plain_));
  LocalTrainer trainer(config_, *guarded_, kStages, 8), plain(config_, *plain_, kStages, 8);
  EXPECT_EQ(trainer.train(kSaved), plain.train(kSaved));
  EXPECT_EQ(trainer.validate(kSaved), plain.validate(kSaved));
  EXPECT_EQ(trainer.train(kLast), plain.train(kLast));
}

TEST_P(GuardedTraining, GoesOnFromACheckpointWithTheSameFiles) {
  const TestFolder folder, plain_folder;
  LocalTrainer trainer(config_, *guarded_, kStages, 8), plain(config_, *plain_, kStages, 8);
  trainer.train(kSaved);
  plain.train(kSaved);
  const auto files = write(trainer, folder.path()), expected = write(plain, plain_folder.path());
  ASSERT_EQ(files.size(), expected.size());
  for (std::size_t i = 0; i < files.size(); ++i) EXPECT_EQ(files[i].hash, expected[i].hash);

  const Result<Checkpoint> checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  for (std::size_t s = 0; s < kStages; ++s) {
    const StageModel& saved = *trainer.models()[s];
    StageModel stage(config_, saved.spec(), *guarded_, 0);
    const Status loaded = load_stage(checkpoint.value(), stage);
    ASSERT_TRUE(loaded.ok()) << loaded.message();
    EXPECT_EQ(stage.tensor_hashes(), saved.tensor_hashes());
  }
  EXPECT_EQ(next_logits(checkpoint.value(), *guarded_), next_logits(checkpoint.value(), *plain_));
}

INSTANTIATE_TEST_SUITE_P(Decks, GuardedTraining,
                         ::testing::Values("plain", "delayed", "lamb", "bf16", "shared", "coded",
                                           "maxout", "bottleneck"));

}  // namespace
}  // namespace swarmpi::test::guarded_training_test
