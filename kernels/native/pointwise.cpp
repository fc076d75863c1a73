#include "kernels/native/pointwise.hpp"

#include <algorithm>

#include "kernels/native/parallel.hpp"
#include "kernels/native/stored.hpp"
#include "kernels/native/vector_math.hpp"

namespace swarmpi::kernels::native {

namespace {

constexpr std::int64_t kRowsAtOnce = 32;

// gelu(x) = x s with s = 1 / (1 + e^(-2 sqrt(2/pi) (x + 0.044715 x^3))), which is the tanh form.
constexpr float kLinear = 0x1.988454p+0f;  // 2 sqrt(2/pi)
constexpr float kCubic = 0x1.2444f2p-4f;   // the same times 0.044715

Vector all(float x) { return Vector{} + x; }

/// e^(-2 sqrt(2/pi) (x + 0.044715 x^3)), below e^60: beyond, s is as good as 0, and products of it
/// stay normal.
inline Vector gelu_exponential(Vector x, Vector square) {
  const Vector exponent = -x * fused(square, all(kCubic), all(kLinear));
  return exp_clamped(exponent > all(60.0f) ? all(60.0f) : exponent);
}

// Beyond this s is 0 or 1 to the last digit, and the exponent's cap or a square that overflows
// would show. An infinity times zero is a NaN, as the formulas have it.
constexpr float kFar = 12.0f;

inline Vector gelu(Vector x) {
  const Vector value = x / (1.0f + gelu_exponential(x, x * x));
  return x < all(-kFar) ? x * 0.0f : value;
}

/// s + x s (1 - s) d(exponent)/dx, where 1 - s = e s loses no digits.
inline Vector gelu_slope(Vector x) {
  const Vector square = x * x;
  const Vector e = gelu_exponential(x, square);
  const Vector s = 1.0f / (1.0f + e);
  const Vector slope = fused(x * (e * s * s), fused(square, all(3.0f * kCubic), all(kLinear)), s);
  const Vector far = fused(x, all(0.0f), x > all(0.0f) ? all(1.0f) : all(0.0f));
  return square > all(kFar * kFar) ? far : slope;
}

template <class Body>
void for_each_row(std::int64_t rows, const Body& body) {
  for_each_block(rows, kRowsAtOnce, [&](std::int64_t, std::int64_t first, std::int64_t end) {
    for (std::int64_t r = first; r < end; ++r) body(r);
  });
}

void add_row(float* __restrict y, const float* __restrict x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
}

void add_rows(float* __restrict y, const float* __restrict a, const float* __restrict b,
              std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

void add_to_rows(float* __restrict y, const float* __restrict a, const float* __restrict b,
                 std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = (y[i] + b[i]) + a[i];
}

/// x += bias, unless it is null; y = gelu(x).
template <class T>
void bias_gelu_row(T* y, float* x, const float* bias, std::int64_t count) {
  for_each_vector(count, [=](const auto& at, const auto& put) {
    Vector v = at(x);
    if (bias != nullptr) {
      v += at(bias);
      put(x, v);
    }
    put(y, gelu(v));
  });
}

/// to = slopes * gelu'(x); `to` may be `slopes`.
template <class T>
void slope_row(T* to, const float* slopes, const float* x, std::int64_t count) {
  for_each_vector(
      count, [=](const auto& at, const auto& put) { put(to, at(slopes) * gelu_slope(at(x))); });
}

}  // namespace

void add_bias(Matrix y, const float* bias) {
  if (bias == nullptr) return;
  for_each_row(y.rows, [&](std::int64_t r) { add_row(y.row(r), bias, y.columns); });
}

void set_residual(Matrix y, ConstMatrix residual, const float* bias) {
  if (residual.data == y.data) return add_bias(y, bias);
  for_each_row(y.rows, [&](std::int64_t r) {
    if (bias != nullptr) {
      add_rows(y.row(r), residual.row(r), bias, y.columns);
    } else {
      std::copy_n(residual.row(r), y.columns, y.row(r));
    }
  });
}

void add_residual(Matrix y, ConstMatrix residual, const float* bias) {
  for_each_row(y.rows, [&](std::int64_t r) {
    if (bias != nullptr) {
      add_to_rows(y.row(r), residual.row(r), bias, y.columns);
    } else {
      add_row(y.row(r), residual.row(r), y.columns);
    }
  });
}

void bias_gelu(Matrix pre, FactorMatrix activated, const float* bias) {
  with_rows(activated, [&](const auto rows) {
    for_each_row(pre.rows, [&](std::int64_t r) {
      bias_gelu_row(rows.row(r), pre.row(r), bias, pre.columns);
    });
  });
}

void scale_by_gelu_slope(FactorMatrix dpre, ConstMatrix slopes, ConstMatrix pre) {
  with_rows(dpre, [&](const auto rows) {
    for_each_row(dpre.rows, [&](std::int64_t r) {
      slope_row(rows.row(r), slopes.row(r), pre.row(r), pre.columns);
    });
  });
}

}  // namespace swarmpi::kernels::native
