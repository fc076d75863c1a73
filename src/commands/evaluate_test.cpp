#include "commands/evaluate.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "commands/small_checkpoint_test.hpp"
#include "data/dataset.hpp"
#include "model/boundary.hpp"

namespace swarmpi::test::evaluate_test {
namespace {

/// The held-out loss as the peers of a run compute it, stage by stage, and as its leader sums it.
double validated(const Config& config) {
  const auto backend = make_backend(config).value();
  backend->prepare_thread();
  const auto stages = initial_stages(config, *backend);
  const Dataset data = Dataset::open(config).value();
  const auto size = static_cast<std::size_t>(config.train.microbatch_size * config.model.context);
  std::vector<std::int32_t> tokens(size), targets(size);
  double nats = 0;
  for (std::int32_t i = 0; i < data.validation_microbatches(); ++i) {
    const MicrobatchId id{Step(1), Purpose::validate, i};
    EXPECT_TRUE(data.microbatch(id, tokens, targets).ok());
    std::vector<std::byte> x, y(static_cast<std::size_t>(boundary_bytes(config).activations));
    for (const auto& stage : stages) {
      const WorkId work{id, StageId(stage->spec().stage)};
      nats += stage->forward(work, tokens, targets, x.data(), y.data());
      x = y;
    }
  }
  return nats / static_cast<double>(data.validation_tokens());
}

class Evaluate : public ::testing::Test {
 protected:
  Evaluate() {
    config_ = small_model();
    config_.data.paths = {write("train.bin", 3000, 1)};
    config_.data.validation_fraction = 0.1;
    config_.train.microbatch_size = 5;
  }

  std::string write(const std::string& name, int size, int factor) {
    std::ofstream file(folder_ / name, std::ios::binary);
    for (int i = 0; i < size; ++i) file << static_cast<char>('a' + i * i * factor % 23);
    return folder_ / name;
  }
  EvaluateOptions options() {
    write_checkpoint(config_, folder_ / "checkpoints", 7);
    EvaluateOptions options;
    options.checkpoint = folder_ / "checkpoints";
    return options;
  }
  static Evaluation evaluated(const EvaluateOptions& options) {
    std::ostringstream error;
    const Result<Evaluation> found = evaluate(options, error);
    EXPECT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(error.str(), "");
    return found.ok() ? found.value() : Evaluation{};
  }
  static std::string problem_of(const EvaluateOptions& options) {
    std::ostringstream error;
    const Result<Evaluation> found = evaluate(options, error);
    if (found.ok()) return "accepted";
    EXPECT_EQ(found.status().code(), ExitStatus::bad_input);
    return found.status().message();
  }

  ScratchFolder folder_{"evaluate"};
  Config config_;
};

TEST_F(Evaluate, GivesTheBitsThatTheRunValidates) {
  const Evaluation found = evaluated(options());
  EXPECT_EQ(found.loss, validated(config_)) << "of what is held out of its data";
  EXPECT_EQ(found.step, 7);
  EXPECT_EQ(found.tokens, found.sequences * 8);
  EXPECT_NE(found.sequences % 5, 0) << "the last microbatch lacks some";
  EXPECT_NEAR(found.loss, std::log(256), 0.1) << "it has learned nothing yet";
}

TEST_F(Evaluate, CrossesTheCutsAsTheRunDoes) {
  config_.data.validation_paths = {write("a.bin", 100, 5), write("b.bin", 77, 7)};
  std::vector<double> losses;
  for (const Codec codec : {Codec::none, Codec::blockwise8}) {
    for (const Boundary boundary : {Boundary::plain, Boundary::bottleneck, Boundary::maxout}) {
      config_.swarm.compress_activations = codec;
      config_.swarm.boundary = boundary;
      std::filesystem::remove_all(folder_ / "checkpoints");
      EvaluateOptions of_files = options();
      of_files.data = config_.data.validation_paths;
      const Evaluation found = evaluated(of_files);
      EXPECT_EQ(found.loss, validated(config_)) << name_of(codec) << " " << name_of(boundary);
      EXPECT_EQ(found.loss, evaluated(options()).loss) << "by the deck's own validation_paths";
      EXPECT_EQ(found.sequences, 22);
      losses.push_back(found.loss);
    }
  }
  std::sort(losses.begin(), losses.end());
  EXPECT_EQ(std::unique(losses.begin(), losses.end()), losses.end()) << "each changes the loss";
}

TEST_F(Evaluate, ReadsOtherFormatsThanTheRuns) {
  const std::string bytes = write("bytes.bin", 200, 3);
  std::ifstream in(bytes, std::ios::binary);
  std::ofstream wide(folder_ / "wide.bin", std::ios::binary);
  for (char c = 0; in.get(c);) wide << c << std::string(3, '\0');
  wide.close();
  EvaluateOptions narrow = options();
  narrow.data = {bytes};
  EvaluateOptions other = narrow;
  other.data = {folder_ / "wide.bin"};
  other.format = DataFormat::tokens_u32;
  EXPECT_EQ(evaluated(other).loss, evaluated(narrow).loss);
}

TEST_F(Evaluate, DataThatItCannotReadAreNamed) {
  EvaluateOptions of_files = options();
  of_files.data = {folder_ / "missing.bin"};
  EXPECT_EQ(problem_of(of_files),
            "--data: " + (folder_ / "missing.bin") + ": No such file or directory");
  of_files.data = {write("short.bin", 8, 1)};
  EXPECT_EQ(problem_of(of_files),
            "--data: too short: 8 tokens; a sequence has model.context + 1 = 9");
  config_.model.vocab = 110;
  of_files = options();
  of_files.data = {write("beyond.bin", 100, 1)};
  EXPECT_NE(problem_of(of_files).find("is not below model.vocab = 110"), std::string::npos);
}

TEST_F(Evaluate, OtherDataThanTheRunsAreNotTakenForThem) {
  config_.data.hash = "0123456789abcdef";
  EXPECT_NE(problem_of(options()).find("data.hash: the data has hash "), std::string::npos);
  config_.data.hash.clear();
  config_.data.validation_fraction = 0;
  EXPECT_NE(problem_of(options()).find("--data PATH"), std::string::npos);
}

TEST_F(Evaluate, PrintsALineOrAJsonObject) {
  EvaluateOptions asked = options();
  asked.data = {write("more.bin", 100, 3)};
  const Evaluation found = evaluated(asked);
  std::ostringstream line, json, error;
  ASSERT_TRUE(run_evaluate(asked, line, error).ok());
  EXPECT_EQ(line.str().find(asked.checkpoint + "/step-7: loss 5."), 0u) << line.str();
  EXPECT_NE(line.str().find(" bits/byte), perplexity 2"), std::string::npos) << line.str();
  EXPECT_NE(line.str().find(": 96 tokens in 12 sequences\n"), std::string::npos) << line.str();
  asked.json = true;
  ASSERT_TRUE(run_evaluate(asked, json, error).ok());
  const auto object = nlohmann::json::parse(json.str());
  EXPECT_EQ(object["loss"].get<double>(), found.loss) << "all bits of it";
  EXPECT_EQ(object["tokens"], 96);
  EXPECT_EQ(object["step"], 7);
}

}  // namespace
}  // namespace swarmpi::test::evaluate_test
