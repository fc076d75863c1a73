#include "kernels/native/vector_math.hpp"

#include "kernels/native/test_support.hpp"

namespace swarmpi::kernels::native::vector_math_test {
namespace {

float power(float x) {
  const Vector y = power_of_two(Vector{} + x);
  for (std::int64_t lane = 1; lane < kVectorLanes; ++lane)
    EXPECT_TRUE(same_bits({y[lane]}, {y[0]})) << x;
  return y[0];
}

TEST(PowerOfTwoTest, IsGoodToThreeUlps) {
  for (float x = -92.0f; x < 127.0f; x += 0.00317f) {
    EXPECT_NEAR(power(x) / std::exp2(static_cast<double>(x)), 1.0, 6 * kUnit) << x;
  }
  for (float x = -92.0f; x < 127.0f; x += 1.0f) EXPECT_EQ(power(x), std::exp2(x)) << x;
}

TEST(PowerOfTwoTest, CountsTheSmallestAsZeroAndKeepsNaNs) {
  for (const float x : {-92.5f, -127.0f, -1e30f, -HUGE_VALF}) EXPECT_EQ(power(x), 0.0f) << x;
  EXPECT_TRUE(std::isnan(power(std::nanf("")))) << "of a NaN";
}

}  // namespace
}  // namespace swarmpi::kernels::native::vector_math_test
