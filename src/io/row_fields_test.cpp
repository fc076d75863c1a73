#include "io/row_fields.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace swarmpi::row_fields_test {
namespace {

template <class Value>
class SameBits : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(SameBits, Reals);

TYPED_TEST(SameBits, NaNEqualsItselfAndZerosDifferBySign) {
  const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN();
  EXPECT_TRUE(same_bits(nan, nan));
  EXPECT_FALSE(same_bits(nan, -nan));
  EXPECT_FALSE(same_bits(TypeParam{0}, -TypeParam{0}));
  EXPECT_TRUE(same_bits(TypeParam{1}, TypeParam{1}));
}

}  // namespace
}  // namespace swarmpi::row_fields_test
