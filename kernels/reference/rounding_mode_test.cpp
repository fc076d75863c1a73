#include "kernels/rounding_mode.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <limits>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace swarmpi::kernels::rounding_mode_test {
namespace {

TEST(RoundingMode, IsSetBackAfterACallerChangedIt) {
  set_rounding_mode();
  EXPECT_TRUE(rounding_mode_is_default());
  std::fesetround(FE_UPWARD);
  EXPECT_FALSE(rounding_mode_is_default());
  set_rounding_mode();
  EXPECT_TRUE(rounding_mode_is_default());
}

#ifdef __SSE2__
TEST(RoundingMode, DenormalsAreKept) {
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, as a library built with fast-math leaves it
  EXPECT_FALSE(rounding_mode_is_default());
  set_rounding_mode();
  volatile float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_GT(tiny * 2.0f, 0.0f);
}
#endif

TEST(RoundingMode, FlagsOfPastOperationsDoNotCount) {
  set_rounding_mode();
  volatile double three = 3.0;
  volatile double inexact = 1.0 / three;
  EXPECT_GT(inexact, 0.0);
  EXPECT_TRUE(rounding_mode_is_default());
}

}  // namespace
}  // namespace swarmpi::kernels::rounding_mode_test
