#pragma once
// The rule of maxout boundaries (Goodfellow et al., 2013): which of neighbouring elements goes on.

#include <cmath>
#include <cstdint>

namespace swarmpi::kernels {

/// Place of the largest of x[0], ..., x[count - 1]: of equal ones the first. A NaN is larger than
/// all numbers, so that it is not lost.
inline std::int64_t place_of_max(const float* x, std::int64_t count) {
  std::int64_t place = 0;
  for (std::int64_t i = 1; i < count; ++i) {
    if (x[i] > x[place] || (std::isnan(x[i]) && !std::isnan(x[place]))) place = i;
  }
  return place;
}

}  // namespace swarmpi::kernels
