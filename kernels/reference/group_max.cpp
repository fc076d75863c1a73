#include "kernels/reference/group_max.hpp"

#include <algorithm>

#include "kernels/group_max_element.hpp"

namespace swarmpi::kernels::reference {

void group_max_forward(Matrix y, ConstMatrix x) {
  const std::int64_t size = x.columns / y.columns;
  for (std::int64_t r = 0; r < y.rows; ++r) {
    for (std::int64_t c = 0; c < y.columns; ++c) {
      const float* const group = x.row(r) + c * size;
      y.row(r)[c] = group[place_of_max(group, size)];
    }
  }
}

void group_max_backward(Matrix dx, ConstMatrix dy, ConstMatrix x) {
  const std::int64_t size = x.columns / dy.columns;
  for (std::int64_t r = 0; r < dy.rows; ++r) {
    std::fill_n(dx.row(r), dx.columns, 0.0f);
    for (std::int64_t c = 0; c < dy.columns; ++c) {
      const std::int64_t first = c * size;
      dx.row(r)[first + place_of_max(x.row(r) + first, size)] = dy.row(r)[c];
    }
  }
}

}  // namespace swarmpi::kernels::reference
