#include "commands/sweep/combinations.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace swarmpi::combinations_test {
namespace {

std::vector<std::string> values_of(const std::string& text) {
  const Result<VariedKey> key = parse_varied_key(text);
  EXPECT_TRUE(key.ok()) << key.status().message();
  return key.ok() ? key.value().values : std::vector<std::string>();
}

std::vector<std::string> names_of(const std::vector<std::string>& vary) {
  std::vector<VariedKey> keys;
  for (const std::string& text : vary) keys.push_back(parse_varied_key(text).value());
  const Result<std::vector<Combination>> all = combine(keys, {});
  EXPECT_TRUE(all.ok()) << all.status().message();
  std::vector<std::string> names;
  if (all.ok()) {
    for (const Combination& one : all.value()) names.push_back(one.name);
  }
  return names;
}

std::string refusal(const std::vector<VariedKey>& keys, const std::vector<std::string>& set = {}) {
  const Result<std::vector<Combination>> all = combine(keys, set);
  EXPECT_FALSE(all.ok());
  EXPECT_EQ(all.status().code(), ExitStatus::bad_input);
  return all.status().message();
}

using Texts = std::vector<std::string>;

TEST(VariedKey, ValuesAreSplitAtCommas) {
  EXPECT_EQ(values_of("train.lr=1e-3,3e-3"), (Texts{"1e-3", "3e-3"}));
  EXPECT_EQ(values_of("train.lr=1e-3"), Texts{"1e-3"});
}

TEST(VariedKey, CommasWithinAValueStay) {
  EXPECT_EQ(values_of(R"(data.paths=["a,b", 'c'],["d"])"), (Texts{R"(["a,b", 'c'])", R"(["d"])"}));
  EXPECT_EQ(values_of(R"(output.run="]",'a,"b')"), (Texts{R"("]")", R"('a,"b')"}));
  EXPECT_EQ(values_of("devices.slow={gflops=1, overhead_s=2},{gflops=3}").size(), 2u);
}

TEST(VariedKey, WithoutKeyOrValueItIsRefused) {
  for (const char* text : {"train.lr", "=1", "train.lr=", "train.lr=1,,2", "train.lr=1,"}) {
    const Result<VariedKey> key = parse_varied_key(text);
    ASSERT_FALSE(key.ok()) << text;
    EXPECT_NE(key.status().message().find(std::string("--vary ") + text), std::string::npos);
  }
}

TEST(Combinations, AreAllPairsOfValuesTheLastKeyFastest) {
  const VariedKey lr{"train.lr", {"1e-3", "3e-3"}}, seed{"train.seed", {"1", "2"}};
  const Result<std::vector<Combination>> all = combine({lr, seed}, {"train.steps=5"});
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all.value().size(), 4u);
  EXPECT_EQ(all.value()[1].settings, (Texts{"train.lr=1e-3", "train.seed=2"}));
  EXPECT_EQ(names_of({"train.lr=1e-3,3e-3", "train.seed=1,2"}),
            (Texts{"lr=1e-3,seed=1", "lr=1e-3,seed=2", "lr=3e-3,seed=1", "lr=3e-3,seed=2"}));
}

TEST(Combinations, NamesAreGoodForFoldersAndTellTheRunsApart) {
  EXPECT_EQ(names_of({"a.size=1", "b.size=2"}), Texts{"a.size=1,b.size=2"});
  EXPECT_EQ(names_of({R"(data.paths=["x/a b.bin"],["x/a  b.bin"])"}),
            (Texts{"paths=x_a_b.bin", "paths=x_a_b.bin-2"}));
  EXPECT_LE(names_of({"a.b=" + std::string(500, 'x')}).front().size(), 100u);
}

TEST(Combinations, WhatContradictsItselfIsRefused) {
  const VariedKey lr{"train.lr", {"1", "2"}};
  EXPECT_NE(refusal({lr, lr}).find("train.lr is varied twice"), std::string::npos);
  EXPECT_NE(refusal({lr}, {"train.lr=3"}).find("--set train.lr=3"), std::string::npos);
  const VariedKey many{"train.seed", Texts(501, "1")};
  EXPECT_NE(refusal({lr, many}).find("more than 1000"), std::string::npos);
}

}  // namespace
}  // namespace swarmpi::combinations_test
