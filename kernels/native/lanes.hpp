#pragma once
// Sums over rows in 16 fixed lanes, folded in halves: the same bits as sum_lanes of block_sum.hpp, in
// the form that compilers turn into vector instructions of any width.

#include <cstdint>
#include <cstring>

namespace swarmpi::kernels::native {

inline constexpr std::int64_t kLanes = 16;

/// Rounds up to whole lanes.
constexpr std::int64_t whole_lanes(std::int64_t count) {
  return (count + kLanes - 1) / kLanes * kLanes;
}

class LaneSum {
 public:
  /// Adds x[0] .. x[count - 1], x[i] in lane i % 16.
  void add(const float* __restrict x, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      Vector a;
      std::memcpy(&a, x + i, sizeof a);
      lanes_ += a;
    }
    for (std::int64_t lane = 0; i < count; ++i, ++lane) lanes_[lane] += x[i];
  }

  void add_products(const float* __restrict x, const float* __restrict y, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      Vector a;
      Vector b;
      std::memcpy(&a, x + i, sizeof a);
      std::memcpy(&b, y + i, sizeof b);
      lanes_ += a * b;
    }
    for (std::int64_t lane = 0; i < count; ++i, ++lane) lanes_[lane] += x[i] * y[i];
  }

  void add_squares_about(float centre, const float* __restrict x, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      Vector a;
      std::memcpy(&a, x + i, sizeof a);
      a -= centre;
      lanes_ += a * a;
    }
    for (std::int64_t lane = 0; i < count; ++i, ++lane) {
      lanes_[lane] += (x[i] - centre) * (x[i] - centre);
    }
  }

  float total() const {
    float lanes[kLanes];
    std::memcpy(lanes, &lanes_, sizeof lanes);
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0];
  }

 private:
  using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
  Vector lanes_ = {};
};

/// The largest element that is not a NaN; -infinity if there is none.
inline float largest_of(const float* __restrict x, std::int64_t count) {
  using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
  Vector best = Vector{} - __builtin_inff();
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Vector a;
    std::memcpy(&a, x + i, sizeof a);
    best = a > best ? a : best;
  }
  float largest = -__builtin_inff();
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    largest = best[lane] > largest ? best[lane] : largest;
  }
  for (; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

}  // namespace swarmpi::kernels::native
