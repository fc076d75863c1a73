#pragma once
// Sums over rows in 16 fixed lanes, folded in halves: the same bits as sum_lanes of block_sum.hpp,
// in vectors of as many lanes.

#include <algorithm>
#include <cstdint>

#include "kernels/fixed_point_element.hpp"
#include "kernels/native/vectors.hpp"

namespace swarmpi::kernels::native {

inline constexpr std::int64_t kLanes = kVectorLanes;

/// Rounds up to whole lanes.
constexpr std::int64_t whole_lanes(std::int64_t count) {
  return (count + kLanes - 1) / kLanes * kLanes;
}

class LaneSum {
 public:
  /// Adds x[0] .. x[count - 1], x[i] in lane i % 16.
  void add(const float* x, std::int64_t count) {
    const std::int64_t whole = count / kLanes * kLanes;
    for (std::int64_t i = 0; i < whole; i += kLanes) sum_ += load(x + i);
    if (whole < count) sum_ += load_part(x + whole, count - whole);
  }

  /// Of rows in either storage.
  template <class X, class Y>
  void add_products(const X* x, const Y* y, std::int64_t count) {
    const std::int64_t whole = count / kLanes * kLanes;
    for (std::int64_t i = 0; i < whole; i += kLanes) sum_ += load(x + i) * load(y + i);
    if (whole < count) {
      sum_ += load_part(x + whole, count - whole) * load_part(y + whole, count - whole);
    }
  }

  void add_squares_about(float centre, const float* x, std::int64_t count) {
    const std::int64_t whole = count / kLanes * kLanes;
    for (std::int64_t i = 0; i < whole; i += kLanes) {
      const Vector difference = load(x + i) - centre;
      sum_ += difference * difference;
    }
    if (whole < count) {
      const Vector difference = load_part(x + whole, count - whole) - centre;
      sum_ += masked_from(difference * difference, count - whole, 0.0f);
    }
  }

  float total() const { return sum_of_lanes(sum_); }

 private:
  Vector sum_ = {};
};

/// The largest of the first `count` elements that is not a NaN; -infinity if there is none.
inline float largest_of(const float* x, std::int64_t count) {
  Vector best = Vector{} - __builtin_inff();
  const std::int64_t whole = count / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) best = larger(load(x + i), best);
  if (whole < count) {
    const std::int64_t rest = count - whole;
    best = larger(masked_from(load_part(x + whole, rest), rest, -__builtin_inff()), best);
  }
  return largest_lane(best);
}

/// The magnitude_bits() of the largest of the first `count` elements.
inline std::uint32_t largest_magnitude_of(const float* __restrict x, std::int64_t count) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, magnitude_bits(x[i]));
  return largest;
}

}  // namespace swarmpi::kernels::native
