#include "kernels/portable_math.hpp"

#include <array>
#include <bit>
#include <cfloat>
#include <cstdint>
#include <limits>

#include "kernels/fixed_point_element.hpp"
#include "kernels/reference/double_pair.hpp"

static_assert(FLT_EVAL_METHOD == 0, "equal bits need arithmetic in the type's own precision");

namespace swarmpi::kernels {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ln 2 = high + low; high has 32 bits, so small integers times it are exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kPerLn2 = 0x1.71547652b82fep+0;

/// 1/first!, 1/(first + step)!, ...
template <int count>
constexpr std::array<double, count> inverse_factorials(int first, int step, bool alternating) {
  std::array<double, count> values{};
  double factorial = 1;  // exact up to 18!, and correctly rounded a little beyond
  int n = 1;
  for (int i = 0; i < count; ++i) {
    for (; n <= first + i * step; ++n) factorial *= n;
    values[static_cast<std::size_t>(i)] = (alternating && i % 2 == 1 ? -1.0 : 1.0) / factorial;
  }
  return values;
}

/// Horner's rule: c[0] + c[1] z + c[2] z^2 + ...
template <std::size_t count>
double polynomial(const std::array<double, count>& c, double z) {
  double sum = c[count - 1];
  for (std::size_t i = count - 1; i-- > 0;) sum = sum * z + c[i];
  return sum;
}

/// Nearest integer of a small number, as a double and as an integer.
struct Nearest {
  explicit Nearest(double x) : real(x + 0x1.8p52 - 0x1.8p52), integer(nearest_integer(x)) {}
  double real;
  std::int64_t integer;
};

/// e^x = 2^power (1 + rest).
struct ReducedExp {
  std::int64_t power;
  double rest;  ///< e^r - 1, |r| <= ln(2) / 2
};

/// Of x + low, |low| far below |x|; |x| <= 2^20.
ReducedExp reduced_exp(double x, double low) {
  static constexpr auto kTaylor = inverse_factorials<12>(2, 1, false);
  const Nearest n(x * kPerLn2);
  const double exact = x - n.real * kLn2High;
  const double r = exact - n.real * kLn2Low;
  const double r_low = ((exact - r) - n.real * kLn2Low) + low;
  const double beyond = r * r * polynomial(kTaylor, r);
  return {n.integer, r + (beyond + r_low * (1.0 + (r + beyond)))};
}

/// y * 2^power, rounded once: y is about 1, |power| <= 1100.
double scaled(double y, std::int64_t power) {
  const int half = static_cast<int>(power) / 2;
  return y * power_of_two(half) * power_of_two(static_cast<int>(power) - half);
}

double exp_of_sum(double x, double low) {
  if (x != x) return x;
  if (x > 710.0) return kInfinity;
  if (x < -746.0) return 0.0;
  const ReducedExp e = reduced_exp(x, low);
  return scaled(1.0 + e.rest, e.power);
}

/// x = 2^power * mantissa with mantissa in [sqrt(1/2), sqrt(2)), for finite x > 0.
struct Decomposed {
  double mantissa;
  double power;
};

Decomposed decompose(double x) {
  int power = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    power = -54;
  }
  const auto bits = std::bit_cast<std::uint64_t>(x);
  power += static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  if (mantissa >= 0x1.6a09e667f3bcdp0) {
    mantissa *= 0.5;
    ++power;
  }
  return {mantissa, static_cast<double>(power)};
}

/// ln x in twice the precision, for finite x > 0: with s = (m - 1) / (m + 1), ln m = 2 (s + s^3/3 +
/// s^5/5 + ...).
DoublePair log_pair(double x) {
  const Decomposed d = decompose(x);
  const DoublePair s = DoublePair{d.mantissa - 1.0} / exact_sum(d.mantissa, 1.0);
  const DoublePair z = s * s;
  DoublePair series{};
  for (int n = 31; n >= 1; n -= 2) {
    series = series * z + DoublePair{1.0} / DoublePair{static_cast<double>(n)};
  }
  constexpr DoublePair kLn2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
  return DoublePair{d.power} * kLn2 + DoublePair{2.0} * s * series;
}

/// x = quadrant * pi/2 + (r + low), |r| <= pi/4.
struct ReducedAngle {
  std::int64_t quadrant;
  double r;
  double low;
};

ReducedAngle reduced_angle(double x) {
  // pi/2 in parts of 33 bits (times an integer below 2^20: exact) and a rest.
  constexpr std::array<double, 4> kHalfPi = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69,
                                             0x1.b839a252049c1p-104};
  constexpr double kPerHalfPi = 0x1.45f306dc9c883p-1;
  const Nearest n(x * kPerHalfPi);
  DoublePair r{x, 0};
  for (const double part : kHalfPi) {
    const DoublePair next = exact_sum(r.high, -n.real * part);
    r = exact_sum(next.high, next.low + r.low);
  }
  return {n.integer & 3, r.high, r.low};
}

double sin_reduced(double r, double low) {
  static constexpr auto kTaylor = inverse_factorials<8>(3, 2, true);  // of -(sin r - r) / r^3
  const double z = r * r;
  return r + (low * (1.0 - 0.5 * z) - r * z * polynomial(kTaylor, z));
}

double cos_reduced(double r, double low) {
  static constexpr auto kTaylor =
      inverse_factorials<8>(4, 2, true);  // of (cos r - 1 + r^2/2) / r^4
  const double z = r * r;
  const double half = 0.5 * z;
  const double leading = 1.0 - half;
  return leading + (((1.0 - leading) - half) + (z * z * polynomial(kTaylor, z) - r * low));
}

double sin_shifted(double x, int quadrants) {
  if (!(x >= -0x1p20 && x <= 0x1p20)) return kNan;
  const ReducedAngle a = reduced_angle(x);
  const std::int64_t quadrant = (a.quadrant + quadrants) & 3;
  const double value = quadrant % 2 == 0 ? sin_reduced(a.r, a.low) : cos_reduced(a.r, a.low);
  return quadrant < 2 ? value : -value;
}

}  // namespace

double portable_exp(double x) { return exp_of_sum(x, 0.0); }

double portable_log(double x) {
  static constexpr std::array<double, 12> kSeries = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,
                                                     2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17,
                                                     2.0 / 19, 2.0 / 21, 2.0 / 23, 2.0 / 25};
  if (x != x || x == kInfinity) return x;
  if (x <= 0.0) return x == 0.0 ? -kInfinity : kNan;
  const Decomposed d = decompose(x);
  // As in log_pair; 2 s = f - s f keeps the leading term exact.
  const double f = d.mantissa - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double tail = s * (f - z * polynomial(kSeries, z));
  return d.power * kLn2High + (f - (tail - d.power * kLn2Low));
}

double portable_tanh(double x) {
  if (x != x || x == 0.0) return x;
  const double magnitude = x < 0 ? -x : x;
  double value = 1.0;
  if (magnitude < 22.0) {  // tanh = (e^2x - 1) / (e^2x + 1)
    const ReducedExp e = reduced_exp(2.0 * magnitude, 0.0);
    const double power = power_of_two(static_cast<int>(e.power));
    const double less_one = power * e.rest + (power - 1.0);
    value = less_one / (less_one + 2.0);
  }
  return x < 0 ? -value : value;
}

double portable_sin(double x) { return x == 0.0 ? x : sin_shifted(x, 0); }
double portable_cos(double x) { return sin_shifted(x, 1); }

double portable_pow(double x, double y) {
  if (!(x > 0.0 && x < kInfinity && y - y == 0.0)) return kNan;
  // Powers beyond 2^100 over- or underflow for every x but 1; the pair's product could not hold
  // them.
  const double power = y > 0x1p100 ? 0x1p100 : y < -0x1p100 ? -0x1p100 : y;
  const DoublePair product = DoublePair{power} * log_pair(x);
  return exp_of_sum(product.high, product.low);
}

}  // namespace swarmpi::kernels
