#include "commands/sample.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "config/deck.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "model/make_backend.hpp"
#include "model/stage_model.hpp"

namespace swarmpi {
namespace {

Config model_of(DataFormat format, std::int64_t vocab) {
  Config config;
  config.data.format = format;
  config.model.vocab = vocab;
  return config;
}

TEST(Prompt, BytesAreTheirNumbers) {
  const auto tokens = prompt_tokens("a\xff\n", model_of(DataFormat::bytes, 256));
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens.value(), (std::vector<std::int32_t>{97, 255, 10}));
}

TEST(Prompt, TokensAreReadAsNumbers) {
  const auto tokens = prompt_tokens(" 5 50256\t0\n", model_of(DataFormat::tokens_u16, 50257));
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens.value(), (std::vector<std::int32_t>{5, 50256, 0}));
  EXPECT_TRUE(prompt_tokens("", model_of(DataFormat::tokens_u16, 50257)).value().empty());
}

TEST(Prompt, WhatTheModelCannotReadIsRefused) {
  for (const char* bad : {"one", "1.5", "-1", "7x", "99999999999", "300"}) {
    const auto tokens = prompt_tokens(bad, model_of(DataFormat::tokens_u16, 300));
    EXPECT_FALSE(tokens.ok()) << bad;
    EXPECT_EQ(tokens.status().code(), ExitStatus::bad_input);
  }
  EXPECT_FALSE(prompt_tokens("\x80", model_of(DataFormat::bytes, 128)).ok());
}

TEST(NextToken, GreedyTakesTheFirstOfTheLikeliest) {
  const std::array<float, 4> logits{1, 5, 5, -2};
  for (const double u : {0.01, 0.5, 1.0}) EXPECT_EQ(next_token(logits, 0, u), 1);
}

TEST(NextToken, DrawsInProportionToTheProbabilities) {
  const std::array<float, 3> logits{0, std::log(2.0f), std::log(5.0f)};
  std::array<int, 3> counts{};
  constexpr int kDraws = 8000;
  for (int i = 1; i <= kDraws; ++i)
    ++counts[static_cast<std::size_t>(next_token(logits, 1, static_cast<double>(i) / kDraws))];
  EXPECT_NEAR(counts[0], kDraws / 8, 1);
  EXPECT_NEAR(counts[1], kDraws * 2 / 8, 1);
  EXPECT_NEAR(counts[2], kDraws * 5 / 8, 1);
}

TEST(NextToken, AHighTemperatureLevelsAndALowOneSharpens) {
  const std::array<float, 2> logits{0, 3};
  EXPECT_EQ(next_token(logits, 1000, 0.4), 0);
  EXPECT_EQ(next_token(logits, 0.01, 1e-6), 1);
}

TEST(NextToken, LogitsOfAnySizeAreSafe) {
  const std::array<float, 2> huge{-3e38f, 3e38f};
  EXPECT_EQ(next_token(huge, 1, 0.5), 1);
  const std::array<float, 1> one{-7};
  EXPECT_EQ(next_token(one, 1, 1.0), 0);
}

std::string shown(std::string_view bytes) {
  TextEscape escape;
  std::string text;
  for (const char c : bytes) text += escape.push(static_cast<std::uint8_t>(c));
  return text + escape.finish();
}

TEST(TextEscape, PlainTextPasses) {
  EXPECT_EQ(shown("One\tline,\nand \\x41"), "One\tline,\nand \\x41");
}

TEST(TextEscape, WholeCharactersPass) {
  EXPECT_EQ(shown("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\x9d"),
            "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\x9d");
}

TEST(TextEscape, ControlCharactersCannotSteerTheTerminal) {
  EXPECT_EQ(shown("\x1b[2J\r\a\x7f"), "\\x1b[2J\\x0d\\x07\\x7f");
  EXPECT_EQ(shown("\xc2\x9b"
                  "2J"),
            "\\xc2\\x9b"
            "2J");  // the same command as one UTF-8 character
}

TEST(TextEscape, BrokenCharactersAreWrittenOut) {
  EXPECT_EQ(shown("\x80\xff"
                  "a"),
            "\\x80\\xff"
            "a");
  EXPECT_EQ(shown("\xe2\x82"
                  "a"),
            "\\xe2\\x82"
            "a");                                       // cut off in the middle
  EXPECT_EQ(shown("\xe2\x82"), "\\xe2\\x82");           // cut off at the end
  EXPECT_EQ(shown("\xe2\xc3\xa9"), "\\xe2\xc3\xa9");    // cut off by another one
  EXPECT_EQ(shown("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(shown("\xc0\x80"), "\\xc0\\x80");           // overlong
}

// A checkpoint of a small untrained model in two stages.
class Sample : public ::testing::Test {
 protected:
  void SetUp() override {
    config_ = model_of(DataFormat::bytes, 256);
    config_.model.layers = 2;
    config_.model.width = 16;
    config_.model.heads = 2;
    config_.model.context = 8;
    config_.swarm.stages = 2;
    config_.train.updates = Updates::delayed;
    config_.compute.kernels = Kernels::reference;
    write();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write() {
    const auto backend = make_backend(config_).value();
    backend->prepare_thread();
    const std::string path = checkpoint_path(folder_.string(), 7);
    std::vector<StoredFile> files;
    for (const StageSpec& spec : partition_model(config_.model, config_.swarm.stages)) {
      StageModel stage(config_, spec, *backend, 0);
      EXPECT_TRUE(stage.initialize().ok());
      auto file = write_stage_file(path, spec.stage, 1, 0, stage.state(), stage.backend());
      ASSERT_TRUE(file.ok()) << file.status().message();
      files.push_back(std::move(file).value());
    }
    CheckpointHead head;
    head.state.step = 7;
    head.deck = resolved_deck(config_);
    const Status status = write_manifest(path, head, {}, files, 1);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  std::string sampled(SampleOptions options) {
    options.checkpoint = folder_.string();
    std::ostringstream out;
    const Status status = run_sample(options, out, out);
    EXPECT_TRUE(status.ok()) << status.message();
    return out.str();
  }

  // The greedy text as the training model sees it, while everything fits into the context.
  std::string greedy(const std::string& prompt, int tokens) {
    Config whole = config_;
    whole.train.microbatch_size = 1;
    const auto backend = make_backend(whole).value();
    backend->prepare_thread();
    StageModel model(whole, partition_model(whole.model, 1).front(), *backend, 0);
    EXPECT_TRUE(model.initialize().ok());
    std::vector<std::int32_t> seen(prompt.begin(), prompt.end());
    TextEscape escape;
    std::string text = prompt;
    for (int i = 0; i < tokens; ++i) {
      std::vector<std::int32_t> padded = seen;
      padded.resize(8);
      std::vector<float> logits(8 * 256);
      model.logits(padded, {}, {logits.data(), 8, 256});
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>((seen.size() - 1) * 256);
      seen.push_back(static_cast<std::int32_t>(std::max_element(row, row + 256) - row));
      text += escape.push(static_cast<std::uint8_t>(seen.back()));
    }
    return text + escape.finish() + "\n";
  }

  Config config_;
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("swarmpi-sample-" + std::to_string(::getpid()));
};

TEST_F(Sample, GreedyTextIsTheModelsOwn) {
  SampleOptions options;
  options.prompt = "abc";
  options.tokens = 5;
  options.temperature = 0;
  EXPECT_EQ(sampled(options), greedy("abc", 5));
}

TEST_F(Sample, IsAFunctionOfTheSeed) {
  SampleOptions options;
  options.prompt = "abc";
  options.tokens = 30;  // many times the context
  const std::string first = sampled(options);
  EXPECT_EQ(sampled(options), first);
  options.seed = 2;
  EXPECT_NE(sampled(options), first);
}

TEST_F(Sample, PromptsOfAnyLengthAreTaken) {
  SampleOptions options;
  options.tokens = 3;
  EXPECT_FALSE(sampled(options).empty());
  options.prompt = "a prompt that is far longer than the context";
  EXPECT_EQ(sampled(options).rfind(options.prompt, 0), 0u);
  options.tokens = 0;
  EXPECT_EQ(sampled(options), options.prompt + "\n");
}

TEST_F(Sample, ADamagedCheckpointIsBadInput) {
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "step-7")) {
    const auto size = std::filesystem::file_size(entry);
    if (entry.path().extension() == ".h5") std::filesystem::resize_file(entry, size - 10);
  }
  std::ostringstream out;
  SampleOptions options;
  options.checkpoint = folder_.string();
  EXPECT_EQ(run_sample(options, out, out).code(), ExitStatus::bad_input);
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace swarmpi
