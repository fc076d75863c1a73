#include "kernels/cuda/pointwise.hpp"

#include "kernels/cuda/reduce.cuh"

namespace swarmpi::kernels::cuda {

namespace {

//--------------------------------------------------------------------------------------------------
// Kernels

/// e^x as the native kernels compute it, by the same steps (native/vector_math.hpp): of the same
/// bits on every device. Within 1.5 units in the last place on [-87, 88]; a NaN stays one.
__device__ float exp_clamped(float x) {
  x = -87.0f > x ? -87.0f : x;
  x = 88.0f < x ? 88.0f : x;
  constexpr float kShift = 0x1.8p23f;  // adding it leaves the nearest integer in the lowest bits
  const float shifted = fmaf(x, 0x1.715476p+0f, kShift);
  const float n = shifted - kShift;
  const float r = fmaf(n, 0x1.05c61p-29f, fmaf(n, -0x1.62e43p-1f, x));
  float p = 0x1.6d43b4p-10f;
  p = fmaf(p, r, 0x1.120be8p-7f);
  p = fmaf(p, r, 0x1.5554e8p-5f);
  p = fmaf(p, r, 0x1.5554dcp-3f);
  p = fmaf(p, r, 0.5f);
  p = fmaf(p * r, r, r) + 1.0f;
  return p * __uint_as_float((__float_as_uint(shifted) << 23) + 0x3f800000u);
}

// gelu(x) = x s with s = 1 / (1 + e^(-2 sqrt(2/pi) (x + 0.044715 x^3))), which is the tanh form.
constexpr float kLinear = 0x1.988454p+0f;  // 2 sqrt(2/pi)
constexpr float kCubic = 0x1.2444f2p-4f;   // the same times 0.044715

/// e^(-2 sqrt(2/pi) (x + 0.044715 x^3)), below e^60: beyond, s is as good as 0, and products of it
/// stay normal.
__device__ float gelu_exponential(float x, float square) {
  const float exponent = -x * fmaf(square, kCubic, kLinear);
  return exp_clamped(exponent > 60.0f ? 60.0f : exponent);
}

// Beyond this s is 0 or 1 to the last digit, and the exponent's cap or a square that overflows
// would show. An infinity times zero is a NaN, as the formulas have it.
constexpr float kFar = 12.0f;

/// x / d for d in [1, 2^100] and |x| <= 2^20: the steps of the compiler's division, without its
/// search for the operands that these steps are not good for.
__device__ float quotient(float x, float d) {
#ifdef __CUDA_ARCH__
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
  r = fmaf(r, fmaf(-d, r, 1.0f), r);
  float q = x * r;
  q = fmaf(fmaf(-d, q, x), r, q);
  return fmaf(fmaf(-d, q, x), r, q);
#else
  return x / d;
#endif
}

__device__ float gelu(float x) {
  const float value = quotient(x, 1.0f + gelu_exponential(x, x * x));
  const float far = x > 0.0f ? x : x * 0.0f;
  return fabsf(x) > kFar ? far : value;
}

/// s + x s (1 - s) d(exponent)/dx, where 1 - s = e s loses no digits.
__device__ float gelu_slope(float x) {
  const float square = x * x;
  const float e = gelu_exponential(x, square);
  const float s = quotient(1.0f, 1.0f + e);
  const float slope = fmaf(x * (e * s * s), fmaf(square, 3.0f * kCubic, kLinear), s);
  const float far = fmaf(x, 0.0f, x > 0.0f ? 1.0f : 0.0f);
  return square > kFar * kFar ? far : slope;
}

/// The part of a bias that belongs to a pack, zeros if there is none: that is never added, since a
/// copy keeps -0.
template <int kWidth>
__device__ Pack<kWidth> load_bias(const float* bias, std::int64_t c, std::int64_t left) {
  if (bias == nullptr) return {};
  return load < kWidth, kWidth == 1 ? Access::columns : Access::packs > (bias + c, left);
}

/// y = x + bias, rounded; bias may be null.
template <int kColumns, class T>
struct AddBias {
  static constexpr int kWidth = kColumns;
  static constexpr Access kAccess = kWidth > 1 ? Access::packs : Access::columns;
  Rows<T> y;
  Rows<const float> x;
  const float* bias;

  __device__ Pack<kWidth> columns(std::int64_t c, std::int64_t left) const {
    return load_bias<kWidth>(bias, c, left);
  }
  __device__ Pack<kWidth> load(std::int64_t r, std::int64_t c, std::int64_t left) const {
    return cuda::load<kWidth, kAccess>(x.row(r) + c, left);
  }
  __device__ void store(std::int64_t r, std::int64_t c, std::int64_t left, Pack<kWidth> sum,
                        const Pack<kWidth>& added) const {
    if (bias != nullptr) sum = sum + added;
    cuda::store<kWidth, kAccess>(y.row(r) + c, left, sum);
  }
};

/// pre += bias, unless that is null; activated = gelu(pre).
template <int kColumns, class T>
struct BiasGelu {
  static constexpr int kWidth = kColumns;
  static constexpr Access kAccess = kWidth > 1 ? Access::packs : Access::columns;
  Rows<T> activated;
  Rows<float> pre;
  const float* bias;

  __device__ Pack<kWidth> columns(std::int64_t c, std::int64_t left) const {
    return load_bias<kWidth>(bias, c, left);
  }
  __device__ Pack<kWidth> load(std::int64_t r, std::int64_t c, std::int64_t left) const {
    return cuda::load<kWidth, kAccess>(pre.row(r) + c, left);
  }
  __device__ void store(std::int64_t r, std::int64_t c, std::int64_t left, Pack<kWidth> x,
                        const Pack<kWidth>& added) const {
    if (bias != nullptr) {
      x = x + added;
      cuda::store<kWidth, kAccess>(pre.row(r) + c, left, x);
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x.at[i] = gelu(x.at[i]);
    cuda::store<kWidth, kAccess>(activated.row(r) + c, left, x);
  }
};

/// to = slopes * gelu'(x), rounded.
template <int kColumns, class T>
struct ScaleByGeluSlope {
  static constexpr int kWidth = kColumns;
  static constexpr Access kAccess = kWidth > 1 ? Access::packs : Access::columns;
  Rows<T> to;
  Rows<const float> slopes, x;

  struct Inputs {
    Pack<kWidth> slopes, x;
  };
  __device__ Nothing columns(std::int64_t, std::int64_t) const { return {}; }
  __device__ Inputs load(std::int64_t r, std::int64_t c, std::int64_t left) const {
    return {cuda::load<kWidth, kAccess>(slopes.row(r) + c, left),
            cuda::load<kWidth, kAccess>(x.row(r) + c, left)};
  }
  __device__ void store(std::int64_t r, std::int64_t c, std::int64_t left, Inputs in,
                        Nothing) const {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) in.slopes.at[i] *= gelu_slope(in.x.at[i]);
    cuda::store<kWidth, kAccess>(to.row(r) + c, left, in.slopes);
  }
};

/// y = (y + bias) + residual; bias may be null.
template <int kColumns, class T>
struct AddResidual {
  static constexpr int kWidth = kColumns;
  static constexpr Access kAccess = kWidth > 1 ? Access::packs : Access::columns;
  Rows<T> y;
  Rows<const float> residual;
  const float* bias;

  struct Inputs {
    Pack<kWidth> y, residual;
  };
  __device__ Pack<kWidth> columns(std::int64_t c, std::int64_t left) const {
    return load_bias<kWidth>(bias, c, left);
  }
  __device__ Inputs load(std::int64_t r, std::int64_t c, std::int64_t left) const {
    return {cuda::load<kWidth, kAccess>(y.row(r) + c, left),
            cuda::load<kWidth, kAccess>(residual.row(r) + c, left)};
  }
  __device__ void store(std::int64_t r, std::int64_t c, std::int64_t left, Inputs in,
                        const Pack<kWidth>& added) const {
    if (bias != nullptr) in.y = in.y + added;
    cuda::store<kWidth, kAccess>(y.row(r) + c, left, in.y + in.residual);
  }
};

}  // namespace

//--------------------------------------------------------------------------------------------------
// Launchers

void add_bias(Matrix y, const float* bias, cudaStream_t stream) {
  if (bias != nullptr) bias_to_factor(y, y, bias, stream);
}

void bias_to_factor(FactorMatrix y, ConstMatrix product, const float* bias, cudaStream_t stream) {
  const bool aligned = is_aligned(y) && is_aligned(product) && is_aligned(bias);
  with_rows(y, [&]<class T>(Rows<T> rows) {
    launch_pointwise<AddBias, T>(aligned, y.rows, y.columns, stream, rows, rows_of(product), bias);
  });
}

void bias_gelu(Matrix pre, FactorMatrix activated, const float* bias, cudaStream_t stream) {
  const bool aligned = is_aligned(pre) && is_aligned(activated) && is_aligned(bias);
  with_rows(activated, [&]<class T>(Rows<T> rows) {
    launch_pointwise<BiasGelu, T>(aligned, pre.rows, pre.columns, stream, rows, rows_of(pre), bias);
  });
}

void scale_by_gelu_slope(FactorMatrix dpre, ConstMatrix product, ConstMatrix pre,
                         cudaStream_t stream) {
  const bool aligned = is_aligned(dpre) && is_aligned(product) && is_aligned(pre);
  with_rows(dpre, [&]<class T>(Rows<T> rows) {
    launch_pointwise<ScaleByGeluSlope, T>(aligned, dpre.rows, dpre.columns, stream, rows,
                                          rows_of(product), rows_of(pre));
  });
}

void add_residual(Matrix y, ConstMatrix residual, const float* bias, cudaStream_t stream) {
  const bool aligned = is_aligned(y) && is_aligned(residual) && is_aligned(bias);
  launch_pointwise<AddResidual, float>(aligned, y.rows, y.columns, stream, rows_of(y),
                                       rows_of(residual), bias);
}

void copy(Matrix to, ConstMatrix from, cudaStream_t stream) {
  if (to.columns % 4 != 0 && to.stride == to.columns && from.stride == from.columns) {
    // Rows that are not aligned, but without gaps: together they are one row that is.
    const std::int64_t count = to.rows * to.columns;
    to = {to.data, 1, count};
    from = {from.data, 1, count};
  }
  bias_to_factor(to, from, nullptr, stream);
}

void copy_factor(FactorMatrix to, ConstMatrix from, cudaStream_t stream) {
  bias_to_factor(to, from, nullptr, stream);
}

void to_bf16(std::uint16_t* to, std::int64_t to_stride, const float* from, std::int64_t rows,
             std::int64_t columns, std::int64_t from_stride, cudaStream_t stream) {
  copy_factor({to, rows, columns, to_stride, Element::bf16}, {from, rows, columns, from_stride},
              stream);
}

}  // namespace swarmpi::kernels::cuda
