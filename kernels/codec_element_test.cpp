#include "kernels/codec_element.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace swarmpi::kernels::codec_element_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
float above(float value) { return std::nextafter(value, kInfinity); }
float below(float value) { return std::nextafter(value, -kInfinity); }

/// What a finite half stands for, from its fields.
double value_of_half(std::uint32_t half) {
  const int exponent = static_cast<int>(half >> 10 & 31u);
  const int fraction = static_cast<int>(half & 0x3ffu);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (half & 0x8000u) != 0 ? -magnitude : magnitude;
}

TEST(CodecElement, EveryHalfIsDecodedExactlyAndComesBack) {
  for (std::uint32_t half = 0; half < 0x10000u; ++half) {
    const float value = float_from_half(static_cast<std::uint16_t>(half));
    if ((half & 0x7fffu) > 0x7c00u) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    if ((half & 0x7fffu) == 0x7c00u) {
      EXPECT_EQ(value, half == 0x7c00u ? kInfinity : -kInfinity);
    } else {
      ASSERT_EQ(static_cast<double>(value), value_of_half(half)) << half;
    }
    ASSERT_EQ(half_from_float(value), half);
  }
}

TEST(CodecElement, BetweenTwoHalvesTheNearerWinsAndTiesGoToEven) {
  // Subnormal halves, and the step from the largest one to what would be 65536, are among them.
  for (std::uint32_t low = 0; low < 0x7c00u; ++low) {
    const double next = low == 0x7bffu ? 65536.0 : value_of_half(low + 1);
    const auto middle = static_cast<float>((value_of_half(low) + next) / 2);
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const float s = sign == 0 ? 1.0f : -1.0f;
      ASSERT_EQ(half_from_float(s * below(middle)), sign | low);
      ASSERT_EQ(half_from_float(s * middle), sign | (low % 2 == 0 ? low : low + 1));
      ASSERT_EQ(half_from_float(s * above(middle)), sign | (low + 1));
    }
  }
}

TEST(CodecElement, HalvesOfKnownValues) {
  EXPECT_EQ(half_from_float(1.0f), 0x3c00u);
  EXPECT_EQ(half_from_float(-2.0f), 0xc000u);
  EXPECT_EQ(half_from_float(-0.0f), 0x8000u);
  EXPECT_EQ(half_from_float(0x1p-24f), 1u);
  EXPECT_EQ(half_from_float(0x1p-25f), 0u);
  EXPECT_EQ(half_from_float(std::numeric_limits<float>::denorm_min()), 0u);
  EXPECT_EQ(half_from_float(65504.0f), 0x7bffu);
  EXPECT_EQ(half_from_float(below(65520.0f)), 0x7bffu);
  EXPECT_EQ(half_from_float(65520.0f), 0x7c00u);
  EXPECT_EQ(half_from_float(-std::numeric_limits<float>::max()), 0xfc00u);
  EXPECT_EQ(half_from_float(-kInfinity), 0xfc00u);
}

TEST(CodecElement, EveryNanBecomesTheSame) {
  for (const std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const std::uint16_t half = half_from_float(from_bits(bits));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(float_from_half(half)), 0x7fc00000u) << bits;
    EXPECT_EQ(coded_bf16(from_bits(bits)), 0x7fc0u) << bits;
  }
}

TEST(CodecElement, Bf16KeepsDenormalsAndRoundsToNearestEven) {
  // Over all neighbours, the step to infinity included.
  for (std::uint32_t low = 0; low < 0x7f80u; ++low) {
    const std::uint32_t middle = (low << 16) + 0x8000u;
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const std::uint32_t upper = sign >> 16;
      ASSERT_EQ(coded_bf16(from_bits(sign | low << 16)), upper | low);
      ASSERT_EQ(coded_bf16(from_bits(sign | (middle - 1))), upper | low);
      ASSERT_EQ(coded_bf16(from_bits(sign | middle)), upper | (low + low % 2));
      ASSERT_EQ(coded_bf16(from_bits(sign | (middle + 1))), upper | (low + 1));
    }
  }
  EXPECT_EQ(coded_bf16(kInfinity), 0x7f80u);
}

TEST(CodecElement, ABlocksMagnitudeIsStoredUnlessItIsTinyOrNotFinite) {
  EXPECT_EQ(coded_absmax(magnitude_bits(-3.5f)), 3.5f);
  EXPECT_EQ(coded_absmax(magnitude_bits(0x1p-100f)), 0x1p-100f);
  EXPECT_EQ(coded_absmax(magnitude_bits(below(0x1p-100f))), 0.0f);
  EXPECT_EQ(coded_absmax(0), 0.0f);
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(coded_absmax(magnitude_bits(largest)), largest);
  for (const float bad : {kInfinity, -kInfinity, kCanonicalNan}) {
    EXPECT_TRUE(decodes_to_nan(coded_absmax(magnitude_bits(bad))));
  }
}

TEST(CodecElement, Uniform8RoundsToNearestEvenAndStaysWithin127) {
  for (int code = -127; code <= 127; ++code) {
    const auto y = static_cast<float>(code);
    EXPECT_EQ(uniform8_code(y), code);
    if (code == 127) continue;
    EXPECT_EQ(uniform8_code(below(y + 0.5f)), code);
    EXPECT_EQ(uniform8_code(y + 0.5f), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(uniform8_code(above(y + 0.5f)), code + 1);
  }
  EXPECT_EQ(uniform8_code(128.0f), 127);
  EXPECT_EQ(uniform8_code(-1000.0f), -127);
  EXPECT_EQ(uniform8_code(-0.0f), 0);
}

TEST(CodecElement, Uniform8GivesTheLargestOfABlockTheLastCode) {
  for (std::uint32_t bits = std::bit_cast<std::uint32_t>(0x1p-100f); bits < kInfinityBits;
       bits += 10007) {
    const float absmax = from_bits(bits);
    ASSERT_EQ(uniform8_code(absmax * uniform8_rate(absmax)), 127) << absmax;
    ASSERT_EQ(uniform8_code(-absmax * uniform8_rate(absmax)), -127) << absmax;
  }
}

TEST(Blockwise8, TheCodebookHas256ValuesAroundZero) {
  const auto& values = kBlockwise8Values;
  EXPECT_EQ(std::set<float>(values.begin(), values.end()).size(), 256u);
  EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
  EXPECT_EQ(values[kBlockwise8Zero], 0.0f);
  for (std::size_t k = 1; k <= 127; ++k) ASSERT_EQ(values[127 - k], -values[127 + k]) << k;
  EXPECT_EQ(values[128], 5.5e-7f);      // 10^-6 times the middle of [0.1, 1]
  EXPECT_EQ(values[129], 3.25e-6f);     // the middle of [0.1, 0.55], by 10^-5
  EXPECT_EQ(values[254], 0.99296875f);  // the last of 64 parts
  EXPECT_EQ(values[255], 1.0f);         // which has no negative
}

TEST(Blockwise8, DecadesHoldTheMidpointsOfEqualParts) {
  std::size_t at = 128;
  for (int i = 0; i < 7; ++i) {
    const int parts = 1 << i;
    for (int j = 0; j < parts; ++j, ++at) {
      const long double part = 0.1L + 0.9L * (j + 0.5L) / parts;
      ASSERT_EQ(kBlockwise8Values[at], static_cast<float>(part * powl(10.0L, i - 6))) << at;
    }
  }
  EXPECT_EQ(at, 255u);
}

/// The code of the nearest value; of the lower of two.
std::size_t nearest_code(double y) {
  std::size_t best = 0;
  for (std::size_t code = 1; code < 256; ++code) {
    const auto distance = [=](std::size_t c) {
      return std::fabs(static_cast<double>(kBlockwise8Values[c]) - y);
    };
    if (distance(code) < distance(best)) best = code;
  }
  return best;
}

TEST(Blockwise8, TheNearestValueIsChosen) {
  for (std::uint32_t bits = 0; bits <= std::bit_cast<std::uint32_t>(1.0f); bits += 65521) {
    for (const float y : {from_bits(bits), -from_bits(bits)}) {
      ASSERT_EQ(blockwise8_code(y), nearest_code(y)) << y;
    }
  }
  for (std::size_t code = 0; code < 256; ++code) {
    ASSERT_EQ(blockwise8_code(kBlockwise8Values[code]), code);
  }
}

TEST(Blockwise8, AMidpointGoesDownAndTheNextNumberUp) {
  for (std::size_t code = 0; code < 255; ++code) {
    const float midpoint = kBlockwise8Midpoints[code];
    ASSERT_EQ(blockwise8_code(midpoint), code);
    ASSERT_EQ(blockwise8_code(below(midpoint)), code);
    ASSERT_EQ(blockwise8_code(above(midpoint)), code + 1);
    ASSERT_EQ(nearest_code(below(midpoint)), code);
    ASSERT_EQ(nearest_code(above(midpoint)), code + 1);
  }
}

TEST(Blockwise8, ZeroIsExactAndTheLargestIsOne) {
  EXPECT_EQ(blockwise8_code(0.0f), kBlockwise8Zero);
  EXPECT_EQ(blockwise8_code(-0.0f), kBlockwise8Zero);
  EXPECT_EQ(blockwise8_code(std::numeric_limits<float>::denorm_min()), kBlockwise8Zero);
  for (std::uint32_t bits = std::bit_cast<std::uint32_t>(0x1p-100f); bits < kInfinityBits;
       bits += 10007) {
    const float absmax = from_bits(bits);
    ASSERT_EQ(blockwise8_code(absmax * blockwise8_rate(absmax)), 255) << absmax;
    ASSERT_EQ(blockwise8_code(-absmax * blockwise8_rate(absmax)), 0) << absmax;
  }
}

TEST(Codecs, BytesOfAnArray) {
  for (const Codec codec : {Codec::fp16, Codec::bf16}) {
    EXPECT_EQ(coded_bytes(codec, 0), 0u);
    EXPECT_EQ(coded_bytes(codec, 4097), 8194u);
    EXPECT_EQ(coded_start(codec, 4097), 0u);
  }
  for (const Codec codec : {Codec::uniform8, Codec::blockwise8}) {
    EXPECT_EQ(coded_bytes(codec, 0), 0u);
    EXPECT_EQ(coded_bytes(codec, 1), 5u);
    EXPECT_EQ(coded_bytes(codec, 4096), 4100u);
    EXPECT_EQ(coded_bytes(codec, 4097), 4105u);
    EXPECT_EQ(coded_start(codec, 4097), 8u);
  }
}

}  // namespace
}  // namespace swarmpi::kernels::codec_element_test
