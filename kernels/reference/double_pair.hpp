#pragma once
// Numbers of twice double's precision as an unevaluated sum high + low (Dekker, 1971), without fma.

namespace swarmpi::kernels {

struct DoublePair {
  double high = 0;
  double low = 0;
};

/// a + b exactly (Knuth).
inline DoublePair exact_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

/// a * b exactly, for factors below 2^970 and products well above the denormals.
inline DoublePair exact_product(double a, double b) {
  constexpr double kSplit = 0x1p27 + 1;
  const double a_high = kSplit * a - (kSplit * a - a);
  const double b_high = kSplit * b - (kSplit * b - b);
  const double a_low = a - a_high;
  const double b_low = b - b_high;
  const double product = a * b;
  return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
}

inline DoublePair operator+(DoublePair a, DoublePair b) {
  const DoublePair sum = exact_sum(a.high, b.high);
  return exact_sum(sum.high, sum.low + (a.low + b.low));
}

inline DoublePair operator*(DoublePair a, DoublePair b) {
  const DoublePair product = exact_product(a.high, b.high);
  return exact_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

inline DoublePair operator/(DoublePair a, DoublePair b) {
  const double quotient = a.high / b.high;
  const DoublePair remainder = a + DoublePair{-quotient} * b;
  return exact_sum(quotient, remainder.high / b.high);
}

}  // namespace swarmpi::kernels
