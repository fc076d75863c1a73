#pragma once
// 16 fp32 as one vector, and what compilers do not offer for it: fused multiply-adds of fp32 and of
// pairs of bf16. Only here, and for tiles in amx/tile.hpp and amx/tile.cpp, are instructions
// called by name.

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__FMA__)
#include <immintrin.h>
#endif

namespace swarmpi::kernels::native {

using Vector = float __attribute__((vector_size(64)));
using VectorBits = std::uint32_t __attribute__((vector_size(64)));
using VectorBf16 = std::uint16_t __attribute__((vector_size(32)));
inline constexpr std::int64_t kVectorLanes = 16;

#if defined(__AVX512F__)
// GCC 12 takes some instructions without a mask for uses of what is uninitialized.
inline constexpr __mmask16 kAllLanes = 0xffff;
#endif

/// As many bytes as they are: 16 fp32, or 32 bf16.
template <class T>
Vector load_words(const T* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// 16 elements of either storage as fp32, and back, rounded.
inline Vector load(const float* from) { return load_words(from); }
inline VectorBits widened(const std::uint16_t* from) {
  VectorBf16 bits;
  std::memcpy(&bits, from, sizeof bits);
#if defined(__AVX512F__)
  return __builtin_bit_cast(
      VectorBits, _mm512_maskz_cvtepu16_epi32(kAllLanes, __builtin_bit_cast(__m256i, bits)));
#else
  return __builtin_convertvector(bits, VectorBits);
#endif
}
inline Vector load(const std::uint16_t* from) {
  return __builtin_bit_cast(Vector, widened(from) << 16);
}
inline void store_vector(float* to, Vector v) { std::memcpy(to, &v, sizeof v); }
inline VectorBits bf16_bits(Vector v) {
  const auto bits = __builtin_bit_cast(VectorBits, v);
  const VectorBits nan = (bits >> 16 & 0x8000u) | 0x7fc0u;
  const VectorBits rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const VectorBits finite = (bits & 0x7f800000u) == 0u ? bits >> 16 & 0x8000u : rounded;
  return (bits & 0x7fffffffu) > 0x7f800000u ? nan : finite;
}
inline void store_vector(std::uint16_t* to, Vector v) {
#if defined(__AVX512BF16__)
  const auto rounded = _mm512_cvtneps_pbh(v);
#else
  const VectorBf16 rounded = __builtin_convertvector(bf16_bits(v), VectorBf16);
#endif
  std::memcpy(to, &rounded, sizeof rounded);
}

/// Writes past the caches: what is large and not read again soon. `to`: at 64 bytes. Other threads
/// may read it after fence_streams().
template <class V>
void stream_vector(void* to, V v) {
  static_assert(sizeof v == 64);
#if defined(__AVX512F__)
  _mm512_stream_si512(static_cast<__m512i*>(to), __builtin_bit_cast(__m512i, v));
#else
  std::memcpy(to, &v, sizeof v);
#endif
}
/// Elements of a row before the first one at 64 bytes; `count` if it has none.
template <class T>
std::int64_t elements_to_line(const T* row, std::int64_t count) {
  constexpr std::uintptr_t kLine = 64;
  const std::uintptr_t bytes = (kLine - reinterpret_cast<std::uintptr_t>(row) % kLine) % kLine;
  const auto elements = static_cast<std::int64_t>(bytes / sizeof(T));
  return elements < count ? elements : count;
}
inline void fence_streams() {
#if defined(__AVX512F__)
  _mm_sfence();
#endif
}

/// Words of 16 bf16 of a and of b: those of `b` in the higher halves.
inline VectorBits bf16_pairs(const std::uint16_t* a, const std::uint16_t* b) {
  return widened(a) | widened(b) << 16;
}
/// The same, rounded.
inline VectorBits bf16_pairs(Vector a, Vector b) {
  std::uint16_t low[kVectorLanes], high[kVectorLanes];
  store_vector(low, a);
  store_vector(high, b);
  return bf16_pairs(low, high);
}

/// 32 bf16.
using VectorLine = std::uint16_t __attribute__((vector_size(64)));
inline VectorLine bf16_line(Vector a, Vector b) {
#if defined(__AVX512BF16__)
  return __builtin_bit_cast(VectorLine, _mm512_cvtne2ps_pbh(b, a));
#else
  VectorLine line;
  std::uint16_t both[2 * kVectorLanes];
  store_vector(both, a);
  store_vector(both + kVectorLanes, b);
  std::memcpy(&line, both, sizeof line);
  return line;
#endif
}
inline VectorLine load_line(const std::uint16_t* from) {
  VectorLine line;
  std::memcpy(&line, from, sizeof line);
  return line;
}
inline void store_line(std::uint16_t* to, VectorLine line) { std::memcpy(to, &line, sizeof line); }
/// Pairs of elements of a and of b: of their lower halves, or of their upper ones.
inline VectorLine lower_pairs(VectorLine a, VectorLine b) {
  return __builtin_shuffle(
      a, b, VectorLine{0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47});
}
inline VectorLine upper_pairs(VectorLine a, VectorLine b) {
  return __builtin_shuffle(
      a, b, VectorLine{16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                       24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63});
}

/// `count` < 16 elements as fp32, the other lanes zero.
template <class T>
Vector load_part(const T* from, std::int64_t count) {
  T part[kVectorLanes] = {};
  std::memcpy(part, from, static_cast<std::size_t>(count) * sizeof(T));
  return load(part);
}
#if defined(__AVX512F__)
inline Vector load_part(const float* from, std::int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1u), from);
}
#endif

template <class T>
void store_part(T* to, Vector v, std::int64_t count) {
  T part[kVectorLanes];
  store_vector(part, v);
  std::memcpy(to, part, static_cast<std::size_t>(count) * sizeof(T));
}

/// Calls body(at, put) for the vectors of a row of `count`: at(row) are the elements of any
/// row there, put(row, v) writes them. The last vector is filled up with zeros.
template <class Body>
void for_each_vector(std::int64_t count, const Body& body) {
  const std::int64_t whole = count / kVectorLanes * kVectorLanes;
  for (std::int64_t i = 0; i < whole; i += kVectorLanes) {
    body([i](const auto* from) { return load(from + i); },
         [i](auto* to, Vector v) { store_vector(to + i, v); });
  }
  if (whole < count) {
    body([&](const auto* from) { return load_part(from + whole, count - whole); },
         [&](auto* to, Vector v) { store_part(to + whole, v, count - whole); });
  }
}

/// The lanes from `count` on become `value`.
inline Vector masked_from(Vector v, std::int64_t count, float value) {
  const VectorBits lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lane < static_cast<std::uint32_t>(count) ? v : Vector{} + value;
}

/// The larger lane of both; that of b where they are equal or one is a NaN.
inline Vector larger(Vector a, Vector b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(kAllLanes, a, b);
#else
  return a > b ? a : b;
#endif
}
/// Likewise, the smaller one.
inline Vector smaller(Vector a, Vector b) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_ps(kAllLanes, a, b);
#else
  return a < b ? a : b;
#endif
}

/// Folds lanes in halves: fold(v, rotated v) for rotations by 8, 4, 2, 1.
template <class Fold>
float folded(Vector v, const Fold& fold) {
  v = fold(v,
           __builtin_shuffle(v, VectorBits{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}));
  v = fold(v,
           __builtin_shuffle(v, VectorBits{4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11}));
  v = fold(v,
           __builtin_shuffle(v, VectorBits{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13}));
  v = fold(v,
           __builtin_shuffle(v, VectorBits{1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14}));
  return v[0];
}
inline float sum_of_lanes(Vector v) {
  return folded(v, [](Vector a, Vector b) { return a + b; });
}
/// NaNs count as nothing.
inline float largest_lane(Vector v) { return folded(v, larger); }

/// a b + c, rounded once.
inline Vector fused(Vector a, Vector b, Vector c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  struct Halves {
    __m256 low, high;
  };
  const auto x = __builtin_bit_cast(Halves, a);
  const auto y = __builtin_bit_cast(Halves, b);
  const auto z = __builtin_bit_cast(Halves, c);
  const Halves sum{_mm256_fmadd_ps(x.low, y.low, z.low), _mm256_fmadd_ps(x.high, y.high, z.high)};
  return __builtin_bit_cast(Vector, sum);
#else
  for (std::int64_t l = 0; l < kVectorLanes; ++l) c[l] = std::fma(a[l], b[l], c[l]);
  return c;
#endif
}

/// 8 integers of 64 bits.
using VectorWide = std::uint64_t __attribute__((vector_size(64)));
/// The products of lanes 2 i and 2 i + 1, added: whoever adds up all lanes needs no other order.
inline VectorWide sums_of_product_pairs(VectorBits a, VectorBits b) {
#if defined(__AVX512F__)
  constexpr __mmask8 kAll = 0xff;
  const auto x = __builtin_bit_cast(__m512i, a), y = __builtin_bit_cast(__m512i, b);
  const auto even = _mm512_maskz_mul_epu32(kAll, x, y);
  const auto odd = _mm512_maskz_mul_epu32(kAll, _mm512_maskz_srli_epi64(kAll, x, 32),
                                          _mm512_maskz_srli_epi64(kAll, y, 32));
  return __builtin_bit_cast(VectorWide, even) + __builtin_bit_cast(VectorWide, odd);
#elif defined(__AVX2__)
  struct Halves {
    __m256i low, high;
  };
  const auto products = [](__m256i x, __m256i y) {
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32));
    return _mm256_add_epi64(_mm256_mul_epu32(x, y), odd);
  };
  const auto x = __builtin_bit_cast(Halves, a), y = __builtin_bit_cast(Halves, b);
  return __builtin_bit_cast(VectorWide, Halves{products(x.low, y.low), products(x.high, y.high)});
#else
  const auto x = __builtin_bit_cast(VectorWide, a), y = __builtin_bit_cast(VectorWide, b);
  return (x & 0xffffffffu) * (y & 0xffffffffu) + (x >> 32) * (y >> 32);
#endif
}

/// x less the largest integer that is not above it.
inline Vector fraction(Vector x) {
#if defined(__AVX512DQ__)
  return _mm512_maskz_reduce_ps(kAllLanes, x, _MM_FROUND_TO_NEG_INF);
#else
  for (std::int64_t l = 0; l < kVectorLanes; ++l) x[l] -= std::floor(x[l]);
  return x;
#endif
}
/// p times two to the power of the largest integer that is not above x.
inline Vector times_power_of_floor(Vector p, Vector x) {
#if defined(__AVX512F__)
  return _mm512_maskz_scalef_ps(kAllLanes, p, x);
#else
  for (std::int64_t l = 0; l < kVectorLanes; ++l) {
    constexpr float kMost = 300;  // as good as infinity
    const float within = x[l] > -kMost ? (x[l] < kMost ? x[l] : kMost) : -kMost;
    p[l] = std::ldexp(p[l], static_cast<int>(std::floor(within)));
  }
  return p;
#endif
}

/// The word at `a` in all lanes, times b, plus c.
inline Vector multiply_word(const float* a, Vector b, Vector c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(_mm512_set1_ps(*a), b, c);
#else
  return fused(Vector{} + *a, b, c);
#endif
}

#if defined(__AVX512BF16__)
inline constexpr bool kHasBf16Pairs = true;
inline Vector multiply_word(const std::uint16_t* a, Vector b, Vector c) {
  std::int32_t pair = 0;
  std::memcpy(&pair, a, sizeof pair);
  return _mm512_dpbf16_ps(c, (__m512bh)_mm512_set1_epi32(pair), (__m512bh)b);
}
#else
inline constexpr bool kHasBf16Pairs = false;
inline Vector multiply_word(const std::uint16_t* /*a*/, Vector /*b*/, Vector c) { return c; }
#endif

/// Rows and vectors of a tile whose sums fit into registers.
#if defined(__AVX512F__)
inline constexpr int kMostTileRows = 8;
inline constexpr int kTileVectors = 2;
#else
inline constexpr int kMostTileRows = 6;
inline constexpr int kTileVectors = 1;
#endif

}  // namespace swarmpi::kernels::native
