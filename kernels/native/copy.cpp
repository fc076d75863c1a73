#include "kernels/native/copy.hpp"

#include <algorithm>
#include <cstring>

#include "core/check.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/native/stored.hpp"
#include "kernels/native/vectors.hpp"

namespace swarmpi::kernels::native {

namespace {

constexpr std::int64_t kBytesAtOnce = std::int64_t{1} << 18;
constexpr auto kFloatsAtOnce = kBytesAtOnce / static_cast<std::int64_t>(sizeof(float));

}  // namespace

void copy(Matrix to, ConstMatrix from) {
  SWARMPI_CHECK(to.rows == from.rows && to.columns == from.columns, "matrices of one shape");
  // Items are parts of long rows, or some short ones.
  const std::int64_t parts = blocks_of(to.columns, kFloatsAtOnce);
  const std::int64_t rows = std::max<std::int64_t>(1, kFloatsAtOnce / to.columns);
  for_each_item(blocks_of(to.rows, rows) * parts, [&](std::int64_t item, int) {
    const std::int64_t column = item % parts * kFloatsAtOnce;
    const std::int64_t count = std::min(kFloatsAtOnce, to.columns - column);
    const std::int64_t first = item / parts * rows;
    for (std::int64_t r = first; r < std::min(first + rows, to.rows); ++r) {
      std::copy_n(from.row(r) + column, count, to.row(r) + column);
    }
  });
}

void stream(Matrix to, ConstMatrix from) {
  for (std::int64_t r = 0; r < to.rows; ++r) {
    float* const row = to.row(r);
    const std::int64_t head = elements_to_line(row, to.columns);
    const std::int64_t end = head + (to.columns - head) / kVectorLanes * kVectorLanes;
    std::copy_n(from.row(r), head, row);
    for (std::int64_t i = head; i < end; i += kVectorLanes) {
      stream_vector(row + i, load(from.row(r) + i));
    }
    std::copy_n(from.row(r) + end, to.columns - end, row + end);
  }
}

void put(Matrix to, ConstMatrix from, std::int64_t count) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 19;  // 2 MiB
  return count > kLarge ? stream(to, from) : copy(to, from);
}

void copy_factor(FactorMatrix to, ConstMatrix from) {
  constexpr std::int64_t kRowsAtOnce = 32;
  if (to.element == Element::fp32) return copy(to.matrix(), from);
  SWARMPI_CHECK(to.rows == from.rows && to.columns == from.columns, "matrices of one shape");
  for_each_block(to.rows, kRowsAtOnce, [&](std::int64_t, std::int64_t first, std::int64_t end) {
    for (std::int64_t r = first; r < end; ++r) copy_row(to, r, from.row(r));
  });
}

void zero(void* data, std::size_t size_bytes) {
  for_each_block(static_cast<std::int64_t>(size_bytes), kBytesAtOnce,
                 [&](std::int64_t, std::int64_t first, std::int64_t end) {
                   std::memset(static_cast<char*>(data) + first, 0,
                               static_cast<std::size_t>(end - first));
                 });
}

}  // namespace swarmpi::kernels::native
