#include "kernels/native/column_sums.hpp"

#include <algorithm>

#include "kernels/native/parallel.hpp"
#include "kernels/native/stored.hpp"

namespace swarmpi::kernels::native {

namespace {

constexpr std::int64_t kRowsTogether = 4;

template <class T>
void add_row(float* __restrict sums, const T* __restrict x, std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) sums[c] += loaded(x[c]);
}

/// Four rows in one pass over the sums; the same bits as one after the other.
template <class T>
void add_rows(float* __restrict sums, const T* __restrict x, std::int64_t stride,
              std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) {
    sums[c] = (((sums[c] + loaded(x[c])) + loaded(x[c + stride])) + loaded(x[c + 2 * stride])) +
              loaded(x[c + 3 * stride]);
  }
}

}  // namespace

void column_sums(float* sums, Write write, ConstFactor m, Scratch& scratch) {
  const std::int64_t blocks = blocks_of(m.rows, kSumRows);
  const std::int64_t stride = padded_stride(m.columns, sizeof(float));
  float* const partials = scratch.take_array<float>(blocks * stride);
  with_rows(m, [&](const auto rows) {
    for_each_block(m.rows, kSumRows, [&](std::int64_t block, std::int64_t first, std::int64_t end) {
      float* const partial = partials + block * stride;
      std::fill_n(partial, m.columns, 0.0f);
      std::int64_t r = first;
      for (; r + kRowsTogether <= end; r += kRowsTogether) {
        add_rows(partial, rows.row(r), m.stride, m.columns);
      }
      for (; r < end; ++r) add_row(partial, rows.row(r), m.columns);
    });
  });
  add_partials(sums, write, partials, blocks, stride, m.columns);
}

void add_partials(float* totals, Write write, const float* partials, std::int64_t blocks,
                  std::int64_t stride, std::int64_t count) {
  if (write == Write::set) std::fill_n(totals, count, 0.0f);
  for (std::int64_t block = 0; block < blocks; ++block) {
    add_row(totals, partials + block * stride, count);
  }
}

}  // namespace swarmpi::kernels::native
