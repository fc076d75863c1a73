#include "kernels/native/weight_gradient.hpp"

#include <algorithm>

#include "kernels/fixed_point_element.hpp"
#include "kernels/native/order_free_sums.hpp"
#include "kernels/native/parallel.hpp"

namespace swarmpi::kernels::native {

ConstMatrix GradientStrips::make(std::int64_t first) {
  const Matrix strip(room.data, std::min(room.rows, outputs - first), room.columns, room.stride);
  const char* const column = static_cast<const char*>(dy.data) + first * products.element_bytes();
  products.multiply(strip, Factor{column, dy.stride}.transposed(), x, inner, Write::set);
  return strip;
}

Contribution add_strips(std::int64_t* sums, Write write, GradientStrips& strips,
                        std::int16_t exponent, int bits, Scratch& scratch) {
  const std::int64_t columns = strips.room.columns;
  Contribution whole;
  bool has_unflagged = false;
  for (std::int64_t first = 0; first < strips.outputs; first += strips.room.rows) {
    const Contribution strip =
        add_gradient(sums + first * columns, write, strips.make(first), exponent, bits, scratch);
    has_unflagged = has_unflagged || !strip.flagged();
    whole.merge(strip);
  }
  if (!whole.flagged()) return whole;
  // Rare, and the sums of such a step are not used in the end: it may take as long again.
  if (write == Write::set) {
    std::fill_n(sums, strips.outputs * columns, 0);
  } else if (has_unflagged) {
    for (std::int64_t first = 0; first < strips.outputs; first += strips.room.rows) {
      subtract_gradient(sums + first * columns, strips.make(first), exponent, bits, scratch);
    }
  }
  if (whole.nonfinite) return {kNoExponent, true, false};
  return whole;
}

namespace {

/// Calls visit(sums of the block, block, largest magnitude in it) for the gradient's blocks.
template <class Visit>
void for_each_gradient_block(std::int64_t* sums, const GradientBlocks& b, const AmxReads& reads,
                             const Visit& visit) {
  b.products.multiply_blocks(
      b.outputs, b.columns, b.dy.transposed(), b.x, b.inner, reads, [&](const AmxBlock& block) {
        const SumsPart part{sums + block.row * b.columns + block.column, b.columns};
        visit(part, block, largest_magnitude_of(block.sums));
      });
}

}  // namespace

Contribution add_blocks(std::int64_t* sums, Write write, const GradientBlocks& blocks,
                        std::int16_t exponent, int bits, Scratch& scratch) {
  const std::int64_t count = blocks.outputs * blocks.columns;
  const MatrixView<std::int64_t> all(sums, blocks.outputs, blocks.columns, blocks.columns);
  const PartWrite part_write = write == Write::add ? PartWrite::add : set_of(count);
  auto* const largest = scratch.take_array<std::uint32_t>(worker_count());
  std::fill_n(largest, worker_count(), 0u);
  for_each_gradient_block(
      sums, blocks, write == Write::add ? AmxReads::of(all) : AmxReads(),
      [&](const SumsPart& part, const AmxBlock& block, std::uint32_t magnitude) {
        largest[block.worker] = std::max(largest[block.worker], magnitude);
        if (measured(magnitude, exponent).flagged()) return;
        write_part(part, part_write, block.sums, exponent, bits);
      });
  const Contribution whole =
      measured(*std::max_element(largest, largest + worker_count()), exponent);
  if (!whole.flagged()) return whole;
  // Rare, as above.
  if (write == Write::set) {
    std::fill_n(sums, count, 0);
  } else {
    for_each_gradient_block(
        sums, blocks, AmxReads::of(all),
        [&](const SumsPart& part, const AmxBlock& block, std::uint32_t magnitude) {
          if (measured(magnitude, exponent).flagged()) return;
          write_part(part, PartWrite::subtract, block.sums, exponent, bits);
        });
  }
  return whole;
}

}  // namespace swarmpi::kernels::native
