#include "kernels/native/order_free_sums.hpp"

#include <algorithm>

#include "kernels/block_sum.hpp"
#include "kernels/fixed_point_element.hpp"
#include "kernels/native/parallel.hpp"

namespace swarmpi::kernels::native {

namespace {

constexpr std::int64_t kRowsAtOnce = 16;

std::uint32_t largest_magnitude(const float* __restrict x, std::int64_t count) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, magnitude_bits(x[i]));
  return largest;
}

void add_row(std::int64_t* __restrict sums, const float* __restrict x, double per_quantum,
             std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += to_fixed_point(x[i], per_quantum);
}

void round_block(float* __restrict gradient, const std::int64_t* __restrict sums, double quantum,
                 double tokens, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) gradient[i] = rounded_mean(sums[i], quantum, tokens);
}

}  // namespace

Contribution add_gradient(std::int64_t* sums, ConstMatrix gradient, std::int16_t exponent, int bits,
                          Scratch& scratch) {
  const std::int64_t width = gradient.columns;
  const std::int64_t blocks = blocks_of(gradient.rows, kRowsAtOnce);
  auto* const magnitudes = scratch.take_array<std::uint32_t>(blocks);
  for_each_block(gradient.rows, kRowsAtOnce,
                 [&](std::int64_t block, std::int64_t first, std::int64_t end) {
                   std::uint32_t largest = 0;
                   for (std::int64_t r = first; r < end; ++r) {
                     largest = std::max(largest, largest_magnitude(gradient.row(r), width));
                   }
                   magnitudes[block] = largest;
                 });
  const std::uint32_t largest = *std::max_element(magnitudes, magnitudes + blocks);
  const Contribution contribution = measured(largest, exponent);
  if (contribution.flagged() || largest == 0) return contribution;
  const double per_quantum = power_of_two(-quantum_exponent(exponent, bits));
  for_each_block(gradient.rows, kRowsAtOnce,
                 [&](std::int64_t, std::int64_t first, std::int64_t end) {
                   for (std::int64_t r = first; r < end; ++r) {
                     add_row(sums + r * width, gradient.row(r), per_quantum, width);
                   }
                 });
  return contribution;
}

void round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                int q, std::int64_t tokens) {
  const double quantum = power_of_two(q);
  const auto divisor = static_cast<double>(tokens);
  for_each_block(count, kSumBlock, [&](std::int64_t block, std::int64_t first, std::int64_t end) {
    float* const part = gradient + first;
    round_block(part, sums + first, quantum, divisor, end - first);
    squares[block] =
        sum_lanes<double>(end - first, [&](std::int64_t i) { return exact_square(part[i]); });
  });
}

}  // namespace swarmpi::kernels::native
