#include "commands/sample.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "commands/small_checkpoint_test.hpp"

namespace swarmpi::sample_test {
namespace {

Config model_of(DataFormat format, std::int64_t vocab) {
  Config config;
  config.data.format = format;
  config.model.vocab = vocab;
  return config;
}

Result<std::vector<std::int32_t>> tokens_of(const std::string& prompt, const Config& config) {
  SampleOptions options;
  options.prompt = prompt;
  return prompt_tokens(options, config);
}
Result<std::vector<std::int32_t>> numbered(const std::string& numbers, const Config& config) {
  SampleOptions options;
  options.numbers = numbers;
  return prompt_tokens(options, config);
}

TEST(Prompt, BytesAreTheirNumbers) {
  const auto tokens = tokens_of("a\xff\n", model_of(DataFormat::bytes, 256));
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens.value(), (std::vector<std::int32_t>{97, 255, 10}));
}

TEST(Prompt, TokensAreReadAsNumbers) {
  const Config config = model_of(DataFormat::tokens_u16, 50257);
  for (const auto& tokens : {tokens_of(" 5 50256\t0\n", config), numbered("5 50256 0", config)}) {
    ASSERT_TRUE(tokens.ok());
    EXPECT_EQ(tokens.value(), (std::vector<std::int32_t>{5, 50256, 0}));
  }
  EXPECT_TRUE(tokens_of("", config).value().empty());
  EXPECT_TRUE(numbered("", config).value().empty());
  EXPECT_EQ(numbered("97 10", model_of(DataFormat::bytes, 256)).value(),
            (std::vector<std::int32_t>{97, 10}))
      << "bytes have numbers, too";
}

TEST(Prompt, WhatTheModelCannotReadIsRefused) {
  for (const char* bad : {"one", "1.5", "-1", "7x", "99999999999", "300"}) {
    for (const auto& read : {tokens_of, numbered}) {
      const auto tokens = read(bad, model_of(DataFormat::tokens_u16, 300));
      EXPECT_FALSE(tokens.ok()) << bad;
      EXPECT_EQ(tokens.status().code(), ExitStatus::bad_input);
    }
  }
  EXPECT_FALSE(tokens_of("\x80", model_of(DataFormat::bytes, 128)).ok());
  EXPECT_EQ(tokens_of("The", model_of(DataFormat::tokens_u16, 300)).status().message(),
            "--prompt: this model reads tokens: give their numbers, separated by blanks, with "
            "--tokens, not `The`");
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

class Sample : public ::testing::Test {
 protected:
  Sample() { test::write_checkpoint(config_, folder_.path(), 7); }

  std::string sampled(SampleOptions options) {
    options.checkpoint = folder_.path();
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

  Config config_ = test::small_model();
  test::ScratchFolder folder_{"sample"};
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

TEST_F(Sample, NumbersComeOutWhereNumbersGoIn) {
  SampleOptions options;
  options.prompt = "abc";
  options.tokens = 5;
  options.temperature = 0;
  const std::string text = sampled(options);
  options.numbers = "97 98 99";
  std::istringstream words(sampled(options));
  TextEscape escape;
  std::string spelled;
  int token = 0, count = 0;
  while (words >> token) {
    spelled += escape.push(static_cast<std::uint8_t>(token));
    ++count;
  }
  EXPECT_EQ(count, 8);
  EXPECT_EQ(spelled + escape.finish() + "\n", text);
}

TEST_F(Sample, ADamagedCheckpointIsBadInput) {
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "step-7")) {
    const auto size = std::filesystem::file_size(entry);
    if (entry.path().extension() == ".h5") std::filesystem::resize_file(entry, size - 10);
  }
  std::ostringstream out;
  SampleOptions options;
  options.checkpoint = folder_.path();
  EXPECT_EQ(run_sample(options, out, out).code(), ExitStatus::bad_input);
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace swarmpi::sample_test
