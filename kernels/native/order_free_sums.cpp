#include "kernels/native/order_free_sums.hpp"

#include <algorithm>

#include "core/prefetch.hpp"
#include "kernels/block_sum.hpp"
#include "kernels/fixed_point_element.hpp"
#include "kernels/native/lanes.hpp"
#include "kernels/native/parallel.hpp"

namespace swarmpi::kernels::native {

namespace {

constexpr std::int64_t kRowsAtOnce = 16;

void add_row(std::int64_t* __restrict sums, const float* __restrict x, double per_quantum,
             std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += to_fixed_point(x[i], per_quantum);
}

void set_row(std::int64_t* __restrict sums, const float* __restrict x, double per_quantum,
             std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] = to_fixed_point(x[i], per_quantum);
}

/// set_row() past the caches.
void stream_row(std::int64_t* sums, const float* x, double per_quantum, std::int64_t count) {
  constexpr std::int64_t kAtOnce = 8;  // a line
  const std::int64_t head = elements_to_line(sums, count);
  const std::int64_t end = head + (count - head) / kAtOnce * kAtOnce;
  set_row(sums, x, per_quantum, head);
  for (std::int64_t i = head; i < end; i += kAtOnce) {
    std::int64_t line __attribute__((vector_size(64)));
    for (std::int64_t e = 0; e < kAtOnce; ++e) line[e] = to_fixed_point(x[i + e], per_quantum);
    stream_vector(sums + i, line);
  }
  set_row(sums + end, x + end, per_quantum, count - end);
}

void round_block(float* __restrict gradient, const std::int64_t* __restrict sums,
                 double quantum_per_token, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) gradient[i] = rounded_mean(sums[i], quantum_per_token);
}

/// Of rounded gradients. Sums are asked for ahead: memory alone bounds it.
double sum_of_squares(const std::int64_t* sums, double quantum_per_token, std::int64_t count) {
  constexpr std::int64_t kStretch = 64, kAhead = 1024, kBytes = sizeof *sums;
  LaneSums<double> squares;
  for (std::int64_t first = 0; first < count; first += kStretch) {
    const std::int64_t end = std::min(first + kStretch, count);
    fetch_lines(sums, (first + kAhead) * kBytes, (end + kAhead) * kBytes);
    squares.add(first, end, [=](std::int64_t i) {
      return exact_square(rounded_mean(sums[i], quantum_per_token));
    });
  }
  return squares.folded();
}

std::uint32_t largest_magnitude(ConstMatrix gradient, Scratch& scratch) {
  const std::int64_t blocks = blocks_of(gradient.rows, kRowsAtOnce);
  auto* const magnitudes = scratch.take_array<std::uint32_t>(blocks);
  for_each_block(
      gradient.rows, kRowsAtOnce, [&](std::int64_t block, std::int64_t first, std::int64_t end) {
        std::uint32_t largest = 0;
        for (std::int64_t r = first; r < end; ++r) {
          largest = std::max(largest, largest_magnitude_of(gradient.row(r), gradient.columns));
        }
        magnitudes[block] = largest;
      });
  return *std::max_element(magnitudes, magnitudes + blocks);
}

void stream_row_and_fence(std::int64_t* sums, const float* x, double per_quantum,
                          std::int64_t count) {
  stream_row(sums, x, per_quantum, count);
  fence_streams();
}

using WriteRow = void (*)(std::int64_t*, const float*, double, std::int64_t);

/// `rows`: those of the sums; null: the same.
void write_rows(WriteRow write_row, std::int64_t* sums, ConstMatrix gradient, double per_quantum,
                const std::int32_t* rows = nullptr) {
  const std::int64_t width = gradient.columns;
  for_each_block(gradient.rows, kRowsAtOnce,
                 [&](std::int64_t, std::int64_t first, std::int64_t end) {
                   for (std::int64_t r = first; r < end; ++r) {
                     const std::int64_t to = rows == nullptr ? r : rows[r];
                     write_row(sums + to * width, gradient.row(r), per_quantum, width);
                   }
                 });
}

}  // namespace

std::uint32_t largest_magnitude_of(ConstMatrix part) {
  std::uint32_t largest = 0;
  for (std::int64_t r = 0; r < part.rows; ++r) {
    largest = std::max(largest, largest_magnitude_of(part.row(r), part.columns));
  }
  return largest;
}

PartWrite set_of(std::int64_t count) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 16;
  return count > kLarge ? PartWrite::stream : PartWrite::set;
}

void write_part(const SumsPart& sums, PartWrite write, ConstMatrix part, std::int16_t exponent,
                int bits) {
  const double scale = power_of_two(-quantum_exponent(exponent, bits));
  const double per_quantum = write == PartWrite::subtract ? -scale : scale;
  const WriteRow write_row = write == PartWrite::set      ? set_row
                             : write == PartWrite::stream ? stream_row
                                                          : add_row;
  for (std::int64_t r = 0; r < part.rows; ++r) {
    write_row(sums.data + r * sums.stride, part.row(r), per_quantum, part.columns);
  }
}

Contribution add_gradient(std::int64_t* sums, Write write, ConstMatrix gradient,
                          std::int16_t exponent, int bits, Scratch& scratch) {
  const std::uint32_t largest = largest_magnitude(gradient, scratch);
  const Contribution contribution = measured(largest, exponent);
  const bool adds_nothing = contribution.flagged() || largest == 0;
  if (adds_nothing && write == Write::set) std::fill_n(sums, gradient.rows * gradient.columns, 0);
  if (adds_nothing) return contribution;
  const bool streams = set_of(gradient.rows * gradient.columns) == PartWrite::stream;
  const WriteRow set = streams ? stream_row_and_fence : set_row;
  write_rows(write == Write::set ? set : add_row, sums, gradient,
             power_of_two(-quantum_exponent(exponent, bits)));
  return contribution;
}

Contribution add_row_gradients(std::int64_t* sums, ConstMatrix gradient, const std::int32_t* rows,
                               std::int16_t exponent, int bits, Scratch& scratch) {
  const std::uint32_t largest = largest_magnitude(gradient, scratch);
  const Contribution contribution = measured(largest, exponent);
  if (contribution.flagged() || largest == 0) return contribution;
  write_rows(add_row, sums, gradient, power_of_two(-quantum_exponent(exponent, bits)), rows);
  return contribution;
}

// Rounding to nearest even is symmetric: the integers of the negative are the negative integers.
void subtract_gradient(std::int64_t* sums, ConstMatrix gradient, std::int16_t exponent, int bits,
                       Scratch& scratch) {
  const std::uint32_t largest = largest_magnitude(gradient, scratch);
  if (measured(largest, exponent).flagged() || largest == 0) return;
  write_rows(add_row, sums, gradient, -power_of_two(-quantum_exponent(exponent, bits)));
}

void round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                double quantum_per_token) {
  for_each_block(count, kSumBlock, [&](std::int64_t block, std::int64_t first, std::int64_t end) {
    const std::int64_t* const part = sums + first;
    if (gradient != nullptr) round_block(gradient + first, part, quantum_per_token, end - first);
    squares[block] = sum_of_squares(part, quantum_per_token, end - first);
  });
}

}  // namespace swarmpi::kernels::native
