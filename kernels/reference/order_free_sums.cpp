#include "kernels/reference/order_free_sums.hpp"

#include <algorithm>

#include "kernels/block_sum.hpp"
#include "kernels/fixed_point_element.hpp"

namespace swarmpi::kernels::reference {

namespace {

/// Row r of the gradient to the sums from place(r) on.
template <class Place>
Contribution add_rows(std::int64_t* sums, ConstMatrix gradient, std::int16_t exponent, int bits,
                      const Place& place) {
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
      sums[place(r) + c] += to_fixed_point(gradient.row(r)[c], per_quantum);
    }
  }
  return contribution;
}

}  // namespace

Contribution add_gradient(std::int64_t* sums, Write write, ConstMatrix gradient,
                          std::int16_t exponent, int bits) {
  if (write == Write::set) std::fill_n(sums, gradient.rows * gradient.columns, 0);
  return add_rows(sums, gradient, exponent, bits,
                  [&](std::int64_t r) { return r * gradient.columns; });
}

Contribution add_row_gradients(std::int64_t* sums, ConstMatrix gradient, const std::int32_t* rows,
                               std::int16_t exponent, int bits) {
  return add_rows(sums, gradient, exponent, bits,
                  [&](std::int64_t r) { return rows[r] * gradient.columns; });
}

void round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                double quantum_per_token) {
  const auto rounded = [&](std::int64_t i) { return rounded_mean(sums[i], quantum_per_token); };
  if (gradient != nullptr) {
    for (std::int64_t i = 0; i < count; ++i) gradient[i] = rounded(i);
  }
  for (std::int64_t first = 0; first < count; first += kSumBlock) {
    squares[first / kSumBlock] =
        sum_lanes<double>(std::min(kSumBlock, count - first),
                          [&](std::int64_t i) { return exact_square(rounded(first + i)); });
  }
}

}  // namespace swarmpi::kernels::reference
