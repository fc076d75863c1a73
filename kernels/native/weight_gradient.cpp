#include "kernels/native/weight_gradient.hpp"

#include <algorithm>

#include "kernels/native/order_free_sums.hpp"

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

}  // namespace swarmpi::kernels::native
