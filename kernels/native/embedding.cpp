#include "kernels/native/embedding.hpp"

#include <algorithm>

#include "kernels/native/parallel.hpp"

namespace swarmpi::kernels::native {

namespace {

constexpr std::int64_t kRowsAtOnce = 32;
/// Columns that one worker adds up, over all rows: the order of the additions stays that of the
/// rows.
constexpr std::int64_t kColumnsAtOnce = 256;

void add_rows(float* __restrict y, const float* __restrict a, const float* __restrict b,
              std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

void add_to_both(float* __restrict a, float* __restrict b, const float* __restrict x,
                 std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    a[i] += x[i];
    b[i] += x[i];
  }
}

void clear(Matrix m) {
  for_each_block(m.rows, kRowsAtOnce, [&](std::int64_t, std::int64_t first, std::int64_t end) {
    for (std::int64_t r = first; r < end; ++r) std::fill_n(m.row(r), m.columns, 0.0f);
  });
}

}  // namespace

void embed_forward(Matrix x, const std::int32_t* tokens, const float* token_table,
                   const float* position_table, std::int64_t context) {
  for_each_block(x.rows, kRowsAtOnce, [&](std::int64_t, std::int64_t first, std::int64_t end) {
    for (std::int64_t r = first; r < end; ++r) {
      add_rows(x.row(r), token_table + tokens[r] * x.columns,
               position_table + r % context * x.columns, x.columns);
    }
  });
}

void embed_backward(Matrix token_gradient, Matrix position_gradient, ConstMatrix dx,
                    const std::int32_t* tokens) {
  clear(token_gradient);
  clear(position_gradient);
  for_each_block(dx.columns, kColumnsAtOnce,
                 [&](std::int64_t, std::int64_t first, std::int64_t end) {
                   for (std::int64_t r = 0; r < dx.rows; ++r) {
                     add_to_both(token_gradient.row(tokens[r]) + first,
                                 position_gradient.row(r % position_gradient.rows) + first,
                                 dx.row(r) + first, end - first);
                   }
                 });
}

}  // namespace swarmpi::kernels::native
