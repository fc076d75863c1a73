#include "model/token_rows.hpp"

#include <gtest/gtest.h>

namespace swarmpi::token_rows_test {
namespace {

std::vector<std::int32_t> list(std::span<const std::int32_t> values) {
  return {values.begin(), values.end()};
}

TEST(TokenRows, EachTokenHasOneRow) {
  TokenRows tokens(6, 10);
  tokens.read(std::vector<std::int32_t>{7, 0, 7, 9, 0, 7});
  EXPECT_EQ(list(tokens.rows()), (std::vector<std::int32_t>{7, 0, 9}));
  EXPECT_EQ(list(tokens.places()), (std::vector<std::int32_t>{0, 1, 0, 2, 1, 0}));
}

TEST(TokenRows, WhatWasReadBeforeIsForgotten) {
  TokenRows tokens(3, 10);
  tokens.read(std::vector<std::int32_t>{1, 2, 3});
  tokens.read(std::vector<std::int32_t>{3, 1, 3});
  EXPECT_EQ(list(tokens.rows()), (std::vector<std::int32_t>{3, 1}));
  EXPECT_EQ(list(tokens.places()), (std::vector<std::int32_t>{0, 1, 0}));
}

}  // namespace
}  // namespace swarmpi::token_rows_test
