#include "kernels/reference/order_free_sums.hpp"

#include <algorithm>

#include "kernels/block_sum.hpp"
#include "kernels/fixed_point_element.hpp"

namespace swarmpi::kernels::reference {

Contribution add_gradient(std::int64_t* sums, ConstMatrix gradient, std::int16_t exponent,
                          int bits) {
  std::uint32_t largest = 0;
  for (std::int64_t r = 0; r < gradient.rows; ++r) {
    for (std::int64_t c = 0; c < gradient.columns; ++c) {
      largest = std::max(largest, magnitude_bits(gradient.row(r)[c]));
    }
  }
  const Contribution contribution = measured(largest, exponent);
  if (contribution.flagged() || largest == 0) return contribution;
  const double per_quantum = power_of_two(-quantum_exponent(exponent, bits));
  for (std::int64_t r = 0; r < gradient.rows; ++r) {
    for (std::int64_t c = 0; c < gradient.columns; ++c) {
      sums[r * gradient.columns + c] += to_fixed_point(gradient.row(r)[c], per_quantum);
    }
  }
  return contribution;
}

void round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                int q, std::int64_t tokens) {
  const double quantum = power_of_two(q);
  const auto divisor = static_cast<double>(tokens);
  for (std::int64_t i = 0; i < count; ++i) gradient[i] = rounded_mean(sums[i], quantum, divisor);
  for (std::int64_t first = 0; first < count; first += kSumBlock) {
    squares[first / kSumBlock] =
        sum_lanes<double>(std::min(kSumBlock, count - first),
                          [&](std::int64_t i) { return exact_square(gradient[first + i]); });
  }
}

}  // namespace swarmpi::kernels::reference
