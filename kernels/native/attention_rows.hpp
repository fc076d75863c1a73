#pragma once
// Softmax over a row of scores and its way back, and the storage that the results are multiplied
// in. Rows have room for whole vectors.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/bfloat16.hpp"
#include "kernels/native/stored.hpp"
#include "kernels/native/vector_math.hpp"
#include "kernels/native/vectors.hpp"

namespace swarmpi::kernels::native {

/// How factors are multiplied: as they are; in bf16; rounded to bf16, but in fp32.
struct AsFloat {
  using Type = float;
  static float of(float x) { return x; }
  static void put(float* to, Vector v) { store_vector(to, v); }
};
struct AsBf16 {
  using Type = std::uint16_t;
  static std::uint16_t of(float x) { return bf16_from_float(x); }
  static void put(std::uint16_t* to, Vector v) { store_vector(to, v); }
};
struct AsRoundedFloat {
  using Type = float;
  static float of(float x) { return round_to_bf16(x); }
  static void put(float* to, Vector v) {
    store_vector(to, __builtin_bit_cast(Vector, bf16_bits(v) << 16));
  }
};

/// to = from, as Storage has it.
template <class Storage, class From>
void convert_row(typename Storage::Type* __restrict to, const From* __restrict from,
                 std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Storage::of(loaded(from[i]));
}

/// to = e^(scores * scale - shift) of the first `seen` scores, zeros up to whole vectors; returns
/// the sum of what was not rounded yet. `to` may be `scores`.
template <class Storage>
float softmax_row(typename Storage::Type* to, const float* scores, float scale, float shift,
                  std::int64_t seen) {
  Vector sum = {};
  for (std::int64_t s = 0; s < seen; s += kVectorLanes) {
    Vector e = exp_or_zero(fused(load(scores + s), Vector{} + scale, Vector{} - shift));
    if (s + kVectorLanes > seen) e = masked_from(e, seen - s, 0.0f);
    sum += e;
    Storage::put(to + s, e);
  }
  return sum_of_lanes(sum);
}

struct SlopeFactors {
  float scale, log_sum;
  float along;  ///< the row's result times its gradient
};

/// p = e^(scores * scale - log_sum), ds = p * (slopes - along) * scale of the first `seen`, zeros
/// up to whole vectors. p may be `scores`, ds may be `slopes`.
template <class Storage>
void softmax_slopes_row(typename Storage::Type* p, typename Storage::Type* ds, const float* scores,
                        const float* slopes, const SlopeFactors& f, std::int64_t seen) {
  for (std::int64_t s = 0; s < seen; s += kVectorLanes) {
    Vector e = exp_or_zero(fused(load(scores + s), Vector{} + f.scale, Vector{} - f.log_sum));
    Vector d = e * (load(slopes + s) - f.along) * f.scale;
    if (s + kVectorLanes > seen) {
      e = masked_from(e, seen - s, 0.0f);
      d = masked_from(d, seen - s, 0.0f);
    }
    Storage::put(p + s, e);
    Storage::put(ds + s, d);
  }
}

}  // namespace swarmpi::kernels::native
