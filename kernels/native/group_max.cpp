#include "kernels/native/group_max.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/group_max_element.hpp"
#include "kernels/native/parallel.hpp"

namespace swarmpi::kernels::native {

namespace {

constexpr std::int64_t kRowsAtOnce = 32;

/// Calls row(r) for all rows.
template <class Row>
void for_each_row(std::int64_t rows, const Row& row) {
  for_each_block(rows, kRowsAtOnce, [&](std::int64_t, std::int64_t first, std::int64_t end) {
    for (std::int64_t r = first; r < end; ++r) row(r);
  });
}

// Groups of two, without branches: the compiler makes vectors of it.

void max_of_pairs(float* __restrict y, const float* __restrict x, std::int64_t groups) {
  for (std::int64_t c = 0; c < groups; ++c) {
    const float a = x[2 * c], b = x[2 * c + 1];
    const bool second = b > a || (std::isnan(b) && !std::isnan(a));
    y[c] = second ? b : a;
  }
}

void spread_to_pairs(float* __restrict dx, const float* __restrict dy, const float* __restrict x,
                     std::int64_t groups) {
  for (std::int64_t c = 0; c < groups; ++c) {
    const float a = x[2 * c], b = x[2 * c + 1];
    const bool second = b > a || (std::isnan(b) && !std::isnan(a));
    dx[2 * c] = second ? 0.0f : dy[c];
    dx[2 * c + 1] = second ? dy[c] : 0.0f;
  }
}

}  // namespace

void group_max_forward(Matrix y, ConstMatrix x) {
  const std::int64_t size = x.columns / y.columns;
  for_each_row(y.rows, [&](std::int64_t r) {
    if (size == 2) return max_of_pairs(y.row(r), x.row(r), y.columns);
    for (std::int64_t c = 0; c < y.columns; ++c) {
      const float* const group = x.row(r) + c * size;
      y.row(r)[c] = group[place_of_max(group, size)];
    }
  });
}

void group_max_backward(Matrix dx, ConstMatrix dy, ConstMatrix x) {
  const std::int64_t size = x.columns / dy.columns;
  for_each_row(dy.rows, [&](std::int64_t r) {
    if (size == 2) return spread_to_pairs(dx.row(r), dy.row(r), x.row(r), dy.columns);
    std::fill_n(dx.row(r), dx.columns, 0.0f);
    for (std::int64_t c = 0; c < dy.columns; ++c) {
      const std::int64_t first = c * size;
      dx.row(r)[first + place_of_max(x.row(r) + first, size)] = dy.row(r)[c];
    }
  });
}

}  // namespace swarmpi::kernels::native
