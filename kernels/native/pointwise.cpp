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

/// e^(-2 sqrt(2/pi) (x + 0.044715 x^3)), below e^60: beyond, s is as good as 0, and products of it
/// stay normal.
inline float gelu_exponential(float x, float square) {
  const float exponent = -x * std::fma(square, kCubic, kLinear);
  return exp_clamped(exponent > 60.0f ? 60.0f : exponent);
}

// Beyond this s is 0 or 1 to the last digit, and the exponent's cap or a square that overflows
// would show. An infinity times zero is a NaN, as the formulas have it.
constexpr float kFar = 12.0f;

inline float gelu(float x) {
  const float value = x / (1.0f + gelu_exponential(x, x * x));
  return x < -kFar ? x * 0.0f : value;
}

/// s + x s (1 - s) d(exponent)/dx, where 1 - s = e s loses no digits.
inline float gelu_slope(float x) {
  const float square = x * x;
  const float e = gelu_exponential(x, square);
  const float s = 1.0f / (1.0f + e);
  const float slope = std::fma(x * (e * s * s), std::fma(square, 3.0f * kCubic, kLinear), s);
  const float far = std::fma(x, 0.0f, x > 0.0f ? 1.0f : 0.0f);
  return square > kFar * kFar ? far : slope;
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

template <class T>
void gelu_row(T* __restrict y, const float* __restrict x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) store(y[i], gelu(x[i]));
}

template <class T>
void bias_gelu_row(T* __restrict y, float* __restrict x, const float* __restrict bias,
                   std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float biased = x[i] + bias[i];
    x[i] = biased;
    store(y[i], gelu(biased));
  }
}

void slope_row(float* __restrict dx, const float* __restrict x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] *= gelu_slope(x[i]);
}

void slope_row_to(std::uint16_t* __restrict to, const float* __restrict dx,
                  const float* __restrict x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) store(to[i], dx[i] * gelu_slope(x[i]));
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
      if (bias != nullptr) {
        bias_gelu_row(rows.row(r), pre.row(r), bias, pre.columns);
      } else {
        gelu_row(rows.row(r), pre.row(r), pre.columns);
      }
    });
  });
}

void scale_by_gelu_slope(Matrix dpre, ConstMatrix pre) {
  for_each_row(dpre.rows, [&](std::int64_t r) { slope_row(dpre.row(r), pre.row(r), pre.columns); });
}

void scale_by_gelu_slope_to(FactorMatrix dpre, ConstMatrix slopes, ConstMatrix pre) {
  const StoredRows<std::uint16_t> rows(dpre);
  for_each_row(dpre.rows, [&](std::int64_t r) {
    slope_row_to(rows.row(r), slopes.row(r), pre.row(r), pre.columns);
  });
}

}  // namespace swarmpi::kernels::native
