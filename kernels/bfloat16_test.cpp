#include "kernels/bfloat16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace swarmpi::kernels::bfloat16_test {
namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

bool is_denormal(std::uint32_t bf16) { return (bf16 & 0x7f80u) == 0; }

TEST(Bfloat16, DenormalsBecomeZero) {
  for (const std::uint32_t bits : {1u, 0x8000u, 0x7fffffu}) {
    EXPECT_EQ(bf16_from_float(from_bits(bits)), 0);
    EXPECT_EQ(bf16_from_float(from_bits(bits | 0x80000000u)), 0x8000u);
  }
}

TEST(Bfloat16, EveryBf16ButDenormalsStaysWhatItIs) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float value = float_from_bf16(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(bf16_from_float(value), is_denormal(bits) ? bits & 0x8000u : bits);
  }
}

TEST(Bfloat16, BetweenTwoNeighboursTheNearerWinsAndTiesGoToEven) {
  // Over all positive and negative neighbours, the step to infinity included.
  for (std::uint32_t low = 0; low < 0xff80u; ++low) {
    if ((low >= 0x7f80u && low < 0x8000u) || is_denormal(low)) continue;
    const std::uint32_t high = low + 1;
    const std::uint32_t middle = (low << 16) + 0x8000u;
    ASSERT_EQ(bf16_from_float(from_bits((low << 16) + 1)), low);
    ASSERT_EQ(bf16_from_float(from_bits(middle - 1)), low);
    ASSERT_EQ(bf16_from_float(from_bits(middle)), low % 2 == 0 ? low : high);
    ASSERT_EQ(bf16_from_float(from_bits(middle + 1)), high);
    ASSERT_EQ(bf16_from_float(from_bits((high << 16) - 1)), high);
  }
}

TEST(Bfloat16, InfinitiesAndNansStay) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(round_to_bf16(infinity), infinity);
  EXPECT_EQ(round_to_bf16(-infinity), -infinity);
  EXPECT_EQ(round_to_bf16(std::numeric_limits<float>::max()), infinity);
  for (const std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(round_to_bf16(from_bits(bits)))) << bits;
  }
}

}  // namespace
}  // namespace swarmpi::kernels::bfloat16_test
