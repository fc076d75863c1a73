#include "run/sample.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

Config model_of(const std::string& format, std::int64_t vocab) {
  Config config;
  config.data.format = format;
  config.model.vocab = vocab;
  return config;
}

TEST(Prompt, BytesAreTheirNumbers) {
  const auto tokens = prompt_tokens("a\xff\n", model_of("bytes", 256));
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens.value(), (std::vector<std::int32_t>{97, 255, 10}));
}

TEST(Prompt, TokensAreReadAsNumbers) {
  const auto tokens = prompt_tokens(" 5 50256\t0\n", model_of("tokens_u16", 50257));
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens.value(), (std::vector<std::int32_t>{5, 50256, 0}));
  EXPECT_TRUE(prompt_tokens("", model_of("tokens_u16", 50257)).value().empty());
}

TEST(Prompt, WhatTheModelCannotReadIsRefused) {
  for (const char* bad : {"one", "1.5", "-1", "7x", "99999999999", "300"}) {
    const auto tokens = prompt_tokens(bad, model_of("tokens_u16", 300));
    EXPECT_FALSE(tokens.ok()) << bad;
    EXPECT_EQ(tokens.status().code(), ExitStatus::bad_input);
  }
  EXPECT_FALSE(prompt_tokens("\x80", model_of("bytes", 128)).ok());
}

}  // namespace
}  // namespace swarmpi
