#pragma once
// Sums over rows in 16 fixed lanes, folded in halves: the same bits as sum_lanes of block_sum.hpp,
// in the form that compilers turn into vector instructions of any width.

#include <cstdint>
#include <cstring>

namespace swarmpi::kernels::native {

inline constexpr std::int64_t kLanes = 16;

/// Rounds up to whole lanes.
constexpr std::int64_t whole_lanes(std::int64_t count) {
  return (count + kLanes - 1) / kLanes * kLanes;
}

/// 16 numbers as two vectors of 8: what AVX has; wider and narrower units get the same bits.
struct Lanes {
  using Half = float __attribute__((vector_size(kLanes / 2 * sizeof(float))));
  Half low, high;

  explicit Lanes(const float* x) {
    std::memcpy(&low, x, sizeof low);
    std::memcpy(&high, x + kLanes / 2, sizeof high);
  }
  explicit Lanes(float x) : low(Half{} + x), high(Half{} + x) {}

  void store(float* x) const {
    std::memcpy(x, &low, sizeof low);
    std::memcpy(x + kLanes / 2, &high, sizeof high);
  }
};

class LaneSum {
 public:
  /// Adds x[0] .. x[count - 1], x[i] in lane i % 16.
  void add(const float* __restrict x, std::int64_t count) {
    Lanes sum(lanes_);
    const std::int64_t whole = count / kLanes * kLanes;
    for (std::int64_t i = 0; i < whole; i += kLanes) {
      const Lanes a(x + i);
      sum.low += a.low;
      sum.high += a.high;
    }
    sum.store(lanes_);
    for (std::int64_t i = whole; i < count; ++i) lanes_[i - whole] += x[i];
  }

  void add_products(const float* __restrict x, const float* __restrict y, std::int64_t count) {
    Lanes sum(lanes_);
    const std::int64_t whole = count / kLanes * kLanes;
    for (std::int64_t i = 0; i < whole; i += kLanes) {
      const Lanes a(x + i);
      const Lanes b(y + i);
      sum.low += a.low * b.low;
      sum.high += a.high * b.high;
    }
    sum.store(lanes_);
    for (std::int64_t i = whole; i < count; ++i) lanes_[i - whole] += x[i] * y[i];
  }

  void add_squares_about(float centre, const float* __restrict x, std::int64_t count) {
    Lanes sum(lanes_);
    const std::int64_t whole = count / kLanes * kLanes;
    for (std::int64_t i = 0; i < whole; i += kLanes) {
      const Lanes a(x + i);
      sum.low += (a.low - centre) * (a.low - centre);
      sum.high += (a.high - centre) * (a.high - centre);
    }
    sum.store(lanes_);
    for (std::int64_t i = whole; i < count; ++i) {
      lanes_[i - whole] += (x[i] - centre) * (x[i] - centre);
    }
  }

  float total() const {
    float lanes[kLanes];
    std::memcpy(lanes, lanes_, sizeof lanes);
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0];
  }

 private:
  float lanes_[kLanes] = {};
};

/// The largest element that is not a NaN; -infinity if there is none.
inline float largest_of(const float* __restrict x, std::int64_t count) {
  Lanes best(-__builtin_inff());
  const std::int64_t whole = count / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    const Lanes a(x + i);
    best.low = a.low > best.low ? a.low : best.low;
    best.high = a.high > best.high ? a.high : best.high;
  }
  float lanes[kLanes];
  best.store(lanes);
  float largest = -__builtin_inff();
  for (const float lane : lanes) largest = lane > largest ? lane : largest;
  for (std::int64_t i = whole; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

}  // namespace swarmpi::kernels::native
