#pragma once
// Sums whose order is fixed whatever the width of vectors: 16 lanes (element i in lane i % 16),
// folded in halves; long ones in blocks of 4096, added in index order.

#include <algorithm>
#include <cstdint>

#include "kernels/host_device.hpp"

namespace swarmpi::kernels {

inline constexpr std::int64_t kSumLanes = 16;
inline constexpr std::int64_t kSumBlock = 4096;

/// Such a sum on its way, in lanes of type S. Inlined: a copy of its own, with the instructions of
/// the native kernels, might be taken for the reference's.
template <class S>
class LaneSums {
 public:
  /// Adds term(first) ... term(end - 1). REQUIRES: `first` is a multiple of kSumLanes.
  template <class Term>
  void add(std::int64_t first, std::int64_t end, const Term& term) {
    const std::int64_t whole = end - end % kSumLanes;
    for (std::int64_t i = first; i < whole; i += kSumLanes) {
      for (std::int64_t lane = 0; lane < kSumLanes; ++lane) lanes_[lane] += term(i + lane);
    }
    for (std::int64_t i = whole; i < end; ++i) lanes_[i - whole] += term(i);
  }
  /// The sum of all lanes; to be asked for once.
  [[gnu::always_inline]] S folded() {
    for (std::int64_t half = kSumLanes / 2; half > 0; half /= 2) {
      for (std::int64_t lane = 0; lane < half; ++lane) lanes_[lane] += lanes_[lane + half];
    }
    return lanes_[0];
  }

 private:
  S lanes_[kSumLanes] = {};
};

/// term(0) + ... + term(count - 1) in lanes of type S.
template <class S, class Term>
inline S sum_lanes(std::int64_t count, const Term& term) {
  LaneSums<S> sums;
  sums.add(0, count, term);
  return sums.folded();
}

/// The same in double over blocks of kSumBlock, in index order.
template <class Term>
inline double sum_blocks(std::int64_t count, const Term& term) {
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += kSumBlock) {
    sum += sum_lanes<double>(std::min(kSumBlock, count - first),
                             [&](std::int64_t i) { return term(first + i); });
  }
  return sum;
}

/// x^2, exact: the product of two fp32 fits into a double.
SWARMPI_HOST_DEVICE inline double exact_square(float x) {
  return static_cast<double>(x) * static_cast<double>(x);
}

}  // namespace swarmpi::kernels
