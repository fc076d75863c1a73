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

/// How factors are multiplied: as they are; in bf16; rounded to bf16, but in fp32. A left factor's
/// transpose is put two rows at a time, over the fp32 that it was made of: the rows themselves, or
/// pairs of their elements over the first.
struct AsFloat {
  using Type = float;
  static float of(float x) { return x; }
  static void put(float* to, Vector v) { store_vector(to, v); }
  static void put_transposed(float* first, float* second, Vector a, Vector b) {
    put(first, a);
    put(second, b);
  }
};
struct AsBf16 {
  using Type = std::uint16_t;
  static std::uint16_t of(float x) { return bf16_from_float(x); }
  static void put(std::uint16_t* to, Vector v) { store_vector(to, v); }
  static void put_transposed(float* first, float* /*second*/, Vector a, Vector b) {
    store_vector(first, __builtin_bit_cast(Vector, bf16_pairs(a, b)));
  }
};
struct AsRoundedFloat {
  using Type = float;
  static float of(float x) { return round_to_bf16(x); }
  static void put(float* to, Vector v) {
    store_vector(to, __builtin_bit_cast(Vector, bf16_bits(v) << 16));
  }
  static void put_transposed(float* first, float* second, Vector a, Vector b) {
    put(first, a);
    put(second, b);
  }
};

/// to = from, as Storage has it.
template <class Storage, class From>
void convert_row(typename Storage::Type* __restrict to, const From* __restrict from,
                 std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Storage::of(loaded(from[i]));
}

/// to = e^(scores * scale - shift) of the first `seen` scores, zeros up to whole vectors; returns
/// the sum of what was not rounded yet. `to` may lie over `scores`.
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

/// A query on the way back.
struct SlopeRow {
  float* scores;  ///< q k^T, then what Storage puts of p there
  float* slopes;  ///< the gradients of p, then what Storage puts of ds there
  float scale, log_sum;
  float along;        ///< the query's result times its gradient
  std::int64_t seen;  ///< keys
};
/// p = e^(scores * scale - log_sum), ds = p * (slopes - along) * scale: a vector of what is seen,
/// and zeros.
struct SlopeVectors {
  Vector p, ds;

  SlopeVectors(const SlopeRow& row, std::int64_t s)
      : p(exp_or_zero(fused(load(row.scores + s), Vector{} + row.scale, Vector{} - row.log_sum))),
        ds(p * (load(row.slopes + s) - row.along) * row.scale) {
    if (s + kVectorLanes <= row.seen) return;
    const std::int64_t seen = std::max<std::int64_t>(row.seen - s, 0);
    p = masked_from(p, seen, 0.0f);
    ds = masked_from(ds, seen, 0.0f);
  }
};

/// Puts p and ds of two queries as transposes, where their rows are, and rows of ds. Whole vectors
/// of all that one of them sees.
template <class Storage>
void softmax_slopes_rows(const SlopeRow& a, const SlopeRow& b, typename Storage::Type* ds_of_a,
                         typename Storage::Type* ds_of_b) {
  for (std::int64_t s = 0; s < std::max(a.seen, b.seen); s += kVectorLanes) {
    const SlopeVectors of_a(a, s);
    const SlopeVectors of_b(b, s);
    Storage::put_transposed(a.scores + s, b.scores + s, of_a.p, of_b.p);
    Storage::put_transposed(a.slopes + s, b.slopes + s, of_a.ds, of_b.ds);
    if constexpr (sizeof(typename Storage::Type) == 2) {
      Storage::put(ds_of_a + s, of_a.ds);
      Storage::put(ds_of_b + s, of_b.ds);
    }
  }
}

}  // namespace swarmpi::kernels::native
