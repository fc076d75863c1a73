#include "protocol/step/exponents.hpp"

#include <gtest/gtest.h>

#include "kernels/fixed_point.hpp"

namespace swarmpi::exponents_test {
namespace {

constexpr std::int16_t kUnset = kernels::kNoExponent;

TEST(Exponents, RiseAtOnceAndFallByOne) {
  EXPECT_EQ(next_exponents({3, 0}, {0, 3}), (Exponents{3, 2}));
}

TEST(Exponents, NeverFallFurtherThanTheHeadroomBelowTheLargest) {
  EXPECT_EQ(next_exponents({0, -40}, {0, -40}), (Exponents{0, -16}));
}

TEST(Exponents, ATensorThatWasAlwaysZeroTakesTheLargest) {
  EXPECT_EQ(next_exponents({-3, kUnset}, {-3, kUnset}), (Exponents{-3, -3}));
}

TEST(Exponents, ATensorThatBecameZeroKeepsItsOwnAndFalls) {
  EXPECT_EQ(next_exponents({-3, kUnset}, {-3, -5}), (Exponents{-3, -6}));
}

TEST(Exponents, WithoutAnythingMeasuredNothingIsSet) {
  EXPECT_EQ(next_exponents({kUnset}, {kUnset}), (Exponents{kUnset}));
  EXPECT_EQ(next_exponents({kUnset}, {7}), (Exponents{6}));
}

}  // namespace
}  // namespace swarmpi::exponents_test
