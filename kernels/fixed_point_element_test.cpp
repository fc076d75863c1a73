#include "kernels/fixed_point_element.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace swarmpi::kernels::fixed_point_element_test {
namespace {

TEST(FixedPoint, TheExponentIsTheLeastAboveTheMagnitude) {
  for (int power = -149; power <= 127; ++power) {
    const float value = std::ldexp(1.0f, power);
    EXPECT_EQ(least_exponent(magnitude_bits(value)), power + 1) << power;
    EXPECT_EQ(least_exponent(magnitude_bits(-value)), power + 1) << power;
    if (power > -149) {
      const float below = std::nextafter(value, 0.0f);
      EXPECT_EQ(least_exponent(magnitude_bits(below)), power) << power;
    }
  }
  EXPECT_EQ(least_exponent(magnitude_bits(std::numeric_limits<float>::max())), 128);
  EXPECT_EQ(least_exponent(magnitude_bits(0.0f)), kNoExponent);
  EXPECT_EQ(least_exponent(magnitude_bits(-0.0f)), kNoExponent);
}

TEST(FixedPoint, IntegersAreRoundedToNearestEven) {
  for (const double base : {0.0, 1.0, 2.0, 1001.0, 0x1p40, 0x1p49 + 1}) {
    for (const double part : {0.0, 0.25, 0.5, 0.75}) {
      for (const double sign : {1.0, -1.0}) {
        const double value = sign * (base + part);
        EXPECT_EQ(nearest_integer(value), std::llrint(value)) << value;
      }
    }
  }
  EXPECT_EQ(nearest_integer(0x1p50), std::int64_t{1} << 50);
  EXPECT_EQ(nearest_integer(-0x1p50), -(std::int64_t{1} << 50));
  EXPECT_EQ(nearest_integer(1e-300), 0);
}

TEST(FixedPoint, PowersOfTwoNeverBecomeInfiniteOrZero) {
  for (int power = -1000; power <= 1000; ++power) {
    ASSERT_EQ(power_of_two(power), std::ldexp(1.0, power));
  }
  EXPECT_EQ(power_of_two(70000), 0x1p1000);
  EXPECT_EQ(power_of_two(-70000), 0x1p-1000);
}

TEST(FixedPoint, WholeStepsOfTheLargestValuesStayWithin62Bits) {
  for (std::int64_t m = 1; m < std::int64_t{1} << 40; m = m * 3 / 2 + 1) {
    const int bits = fixed_point_bits(m);
    EXPECT_LE(bits, 50);
    EXPECT_LE(static_cast<long double>(m) * std::ldexp(1.0L, bits), std::ldexp(1.0L, 62)) << m;
  }
  EXPECT_EQ(fixed_point_bits(1), 50);
  EXPECT_EQ(fixed_point_bits(4096), 50);
  EXPECT_EQ(fixed_point_bits(4097), 49);
}

TEST(FixedPoint, ValuesUpToTheHeadroomAreTakenAndHigherOnesAreFlagged) {
  constexpr std::int16_t kExponent = -3;
  const float edge = std::ldexp(1.0f, kExponent + kHeadroomBits);
  const Contribution below = measured(magnitude_bits(std::nextafter(edge, 0.0f)), kExponent);
  EXPECT_FALSE(below.flagged());
  EXPECT_EQ(below.exponent, kExponent + kHeadroomBits);
  const Contribution at = measured(magnitude_bits(edge), kExponent);
  EXPECT_TRUE(at.overflow);
  EXPECT_EQ(at.exponent, kExponent + kHeadroomBits + 1);  // so that E can be raised to it
}

TEST(FixedPoint, WithoutAnExponentOnlyZeroFits) {
  EXPECT_FALSE(measured(0, kNoExponent).flagged());
  EXPECT_EQ(measured(0, kNoExponent).exponent, kNoExponent);
  const Contribution one = measured(magnitude_bits(1.0f), kNoExponent);
  EXPECT_TRUE(one.overflow);
  EXPECT_EQ(one.exponent, 1);
}

}  // namespace
}  // namespace swarmpi::kernels::fixed_point_element_test
