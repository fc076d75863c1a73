#include "core/random.hpp"

#include <gtest/gtest.h>

namespace swarmpi::random_test {
namespace {

// Known answers of Philox-4x32-10 as published with Random123 (kat_vectors): counter and key all
// zero.
TEST(Philox, GivesThePublishedNumbers) {
  const PhiloxBlock zero = philox(0, Stream{0}, 0, 0);
  EXPECT_EQ(zero, (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const PhiloxBlock ones = philox(~0ull, Stream{0xffffffff}, 0xffffffff, ~0ull);
  EXPECT_EQ(ones, (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, StreamsDoNotShareNumbers) {
  EXPECT_NE(random_bits(1, Stream::data_order, 0, 0), random_bits(1, Stream::initial_values, 0, 0));
}

TEST(Uniform, NeverZeroNeverAboveOne) {
  EXPECT_GT(uniform(0), 0.0);
  EXPECT_EQ(uniform(0xffffffff), 1.0);
}

}  // namespace
}  // namespace swarmpi::random_test
