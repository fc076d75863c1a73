#include "kernels/portable_math.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace swarmpi::kernels::portable_math_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kTiny = std::numeric_limits<double>::denorm_min();

/// Distance of `value` from the exact result (taken from long double), in units of the last place
/// of double there.
double ulps(double value, long double exact) {
  const double rounded = static_cast<double>(exact);
  if (std::isinf(rounded) || rounded == 0) return value == rounded ? 0 : kInf;
  int exponent = 0;
  std::frexp(rounded, &exponent);
  const long double ulp = std::ldexp(1.0L, std::max(exponent - 53, -1074));
  return static_cast<double>(std::fabs(value - exact) / ulp);
}

/// Random doubles in [low, high], and ones whose exponents are spread evenly down to denormals.
class Samples {
 public:
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(bits_() >> 11) * 0x1p-53;
  }
  double any_exponent(int low, int high) {
    const double mantissa = uniform(1.0, 2.0);
    const int range = high - low + 1;
    const int exponent = low + static_cast<int>(bits_() % static_cast<std::uint64_t>(range));
    return std::ldexp(mantissa, exponent);
  }

 private:
  std::mt19937_64 bits_{20240801};
};

template <class Portable, class Exact, class Draw>
double worst_ulps(const Portable& portable, const Exact& exact, const Draw& draw) {
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const double x = draw();
    worst = std::max(worst, ulps(portable(x), exact(static_cast<long double>(x))));
  }
  return worst;
}

TEST(PortableMath, ExpIsWithinOneUlpFromDenormalResultsToOverflow) {
  Samples s;
  const auto exact = [](long double x) { return std::exp(x); };
  EXPECT_LT(worst_ulps(portable_exp, exact, [&] { return s.uniform(-745.2, 709.8); }), 1.0);
  EXPECT_LT(worst_ulps(portable_exp, exact, [&] { return s.uniform(-1, 1); }), 1.0);
  EXPECT_LT(worst_ulps(portable_exp, exact, [&] { return s.any_exponent(-1074, 9); }), 1.0);
  EXPECT_LT(worst_ulps(portable_exp, exact, [&] { return -s.any_exponent(-1074, 9); }), 1.0);
}

TEST(PortableMath, LogIsWithinOneUlpOverAllPositiveDoubles) {
  Samples s;
  const auto exact = [](long double x) { return std::log(x); };
  EXPECT_LT(worst_ulps(portable_log, exact, [&] { return s.any_exponent(-1074, 1023); }), 1.0);
  EXPECT_LT(worst_ulps(portable_log, exact, [&] { return s.uniform(0.4, 2.5); }), 1.0);
  EXPECT_LT(worst_ulps(portable_log, exact, [&] { return 1 + s.any_exponent(-52, -3); }), 1.0);
}

TEST(PortableMath, TanhIsWithinThreeUlps) {
  Samples s;
  const auto exact = [](long double x) { return std::tanh(x); };
  EXPECT_LT(worst_ulps(portable_tanh, exact, [&] { return s.uniform(-25, 25); }), 3.0);
  EXPECT_LT(worst_ulps(portable_tanh, exact, [&] { return s.uniform(-1, 1); }), 3.0);
  EXPECT_LT(worst_ulps(portable_tanh, exact, [&] { return s.any_exponent(-1074, 6); }), 3.0);
}

TEST(PortableMath, SinAndCosAreWithinOneUlpUpToTheirLimit) {
  Samples s;
  const auto sine = [](long double x) { return std::sin(x); };
  const auto cosine = [](long double x) { return std::cos(x); };
  const double limit = 0x1p20;
  EXPECT_LT(worst_ulps(portable_sin, sine, [&] { return s.uniform(-limit, limit); }), 1.0);
  EXPECT_LT(worst_ulps(portable_cos, cosine, [&] { return s.uniform(-limit, limit); }), 1.0);
  EXPECT_LT(worst_ulps(portable_sin, sine, [&] { return s.uniform(0, 6.3); }), 1.0);
  EXPECT_LT(worst_ulps(portable_cos, cosine, [&] { return s.uniform(0, 6.3); }), 1.0);
  EXPECT_LT(worst_ulps(portable_sin, sine, [&] { return s.any_exponent(-1074, 19); }), 1.0);
}

TEST(PortableMath, SinAndCosKeepTheirBitsNextToMultiplesOfHalfPi) {
  // Nothing is left of the argument's leading bits there: the worst case for the reduction.
  for (int k = 1; k < 600000; k += 7) {
    const double x = k * 1.5707963267948966;
    const auto exact = static_cast<long double>(x);
    EXPECT_LT(ulps(portable_sin(x), std::sin(exact)), 1.0) << k;
    EXPECT_LT(ulps(portable_cos(x), std::cos(exact)), 1.0) << k;
  }
}

TEST(PortableMath, PowIsWithinOneUlpWhereTheExponentIsLarge) {
  Samples s;
  double worst = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = s.any_exponent(-300, 300);
    const double y = s.uniform(-1, 1) * 700 / std::log(x);
    const long double exact = std::pow(static_cast<long double>(x), static_cast<long double>(y));
    worst = std::max(worst, ulps(portable_pow(x, y), exact));
  }
  EXPECT_LT(worst, 1.0);
}

TEST(PortableMath, PowersOfBetaMatchLibm) {
  for (const double beta : {0.9, 0.95, 0.99, 0.999, 0.9999}) {
    for (int t = 1; t < 100000; t = t * 3 / 2 + 1) {
      const long double exact =
          std::pow(static_cast<long double>(beta), static_cast<long double>(t));
      EXPECT_LT(ulps(portable_pow(beta, t), exact), 1.0) << beta << "^" << t;
    }
  }
}

TEST(PortableMath, SpecialValuesGoAsInLibm) {
  EXPECT_EQ(portable_exp(0.0), 1.0);
  EXPECT_EQ(portable_exp(kInf), kInf);
  EXPECT_EQ(portable_exp(-kInf), 0.0);
  EXPECT_TRUE(std::isnan(portable_exp(kNan)));
  EXPECT_EQ(portable_exp(709.79), kInf);
  EXPECT_EQ(portable_exp(1e300), kInf);
  EXPECT_EQ(portable_exp(-745.0), kTiny);
  EXPECT_EQ(portable_exp(-745.2), 0.0);
  EXPECT_EQ(portable_exp(-1e300), 0.0);

  EXPECT_EQ(portable_log(1.0), 0.0);
  EXPECT_EQ(portable_log(0.0), -kInf);
  EXPECT_EQ(portable_log(-0.0), -kInf);
  EXPECT_EQ(portable_log(kInf), kInf);
  EXPECT_TRUE(std::isnan(portable_log(-1.0)));
  EXPECT_TRUE(std::isnan(portable_log(-kInf)));
  EXPECT_TRUE(std::isnan(portable_log(kNan)));

  EXPECT_EQ(portable_tanh(kInf), 1.0);
  EXPECT_EQ(portable_tanh(-kInf), -1.0);
  EXPECT_TRUE(std::isnan(portable_tanh(kNan)));
  EXPECT_TRUE(std::signbit(portable_tanh(-0.0)));
  EXPECT_EQ(portable_tanh(kTiny), kTiny);
  EXPECT_EQ(portable_tanh(-1e300), -1.0);

  EXPECT_TRUE(std::signbit(portable_sin(-0.0)));
  EXPECT_EQ(portable_sin(kTiny), kTiny);
  EXPECT_EQ(portable_cos(0.0), 1.0);
  for (const double x : {kInf, -kInf, kNan, 1.1e6, -1.1e6}) {
    EXPECT_TRUE(std::isnan(portable_sin(x))) << x;
    EXPECT_TRUE(std::isnan(portable_cos(x))) << x;
  }

  EXPECT_EQ(portable_pow(1.0, 1e300), 1.0);
  EXPECT_EQ(portable_pow(7.5, 0.0), 1.0);
  EXPECT_EQ(portable_pow(2.0, -1074.0), kTiny);
  EXPECT_EQ(portable_pow(2.0, 1023.0), 0x1p1023);
  EXPECT_EQ(portable_pow(2.0, 1024.0), kInf);
  EXPECT_EQ(portable_pow(0.5, 1e300), 0.0);
  EXPECT_TRUE(std::isnan(portable_pow(-1.0, 2.0)));
  EXPECT_TRUE(std::isnan(portable_pow(2.0, kNan)));
}

TEST(PortableMath, OddFunctionsAreExactlyOdd) {
  Samples s;
  for (int i = 0; i < 10000; ++i) {
    const double x = s.uniform(-30, 30);
    EXPECT_EQ(portable_tanh(-x), -portable_tanh(x));
    EXPECT_EQ(portable_sin(-x), -portable_sin(x));
    EXPECT_EQ(portable_cos(-x), portable_cos(x));
  }
}

}  // namespace
}  // namespace swarmpi::kernels::portable_math_test
