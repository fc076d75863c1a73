#pragma once
// For tests: a folder with a checkpoint of a small untrained model, as a run would have written it.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "config/deck.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "model/make_backend.hpp"
#include "model/stage_model.hpp"

namespace swarmpi::test {

/// Two stages of bytes, on reference kernels.
inline Config small_model() {
  Config config;
  config.model.layers = 2;
  config.model.width = 16;
  config.model.heads = 2;
  config.model.context = 8;
  config.swarm.stages = 2;
  config.train.updates = Updates::delayed;
  config.compute.kernels = Kernels::reference;
  return config;
}

/// All stages as they are before the first step.
inline std::vector<std::unique_ptr<StageModel>> initial_stages(const Config& config,
                                                               kernels::Backend& backend) {
  std::vector<std::unique_ptr<StageModel>> stages;
  for (StageSpec& spec : partition_model(config)) {
    stages.push_back(std::make_unique<StageModel>(config, std::move(spec), backend, 0));
    EXPECT_TRUE(stages.back()->initialize().ok());
  }
  return stages;
}

/// Writes folder/step-N.
inline void write_checkpoint(const Config& config, const std::string& folder, std::int64_t step) {
  const auto backend = make_backend(config).value();
  backend->prepare_thread();
  const std::string path = checkpoint_path(folder, step);
  std::vector<StoredFile> files;
  for (const auto& stage : initial_stages(config, *backend)) {
    auto file = write_stage_file(path, stage->spec().stage, 1, 0, stage->state(), stage->backend());
    ASSERT_TRUE(file.ok()) << file.status().message();
    files.push_back(std::move(file).value());
  }
  CheckpointHead head;
  head.state.step = step;
  head.deck = resolved_deck(config);
  const Status status = write_manifest(path, head, {}, files, 1);
  ASSERT_TRUE(status.ok()) << status.message();
}

/// A folder that is removed again.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("swarmpi-" + name + "-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace swarmpi::test
