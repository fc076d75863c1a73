#include "kernels/cuda/column_sums.hpp"

#include "kernels/cuda/reduce.cuh"

namespace swarmpi::kernels::cuda {

namespace {

/// Warps of a thread block: each takes every eighth of its rows.
constexpr int kWarps = 8;
/// Rows of a warp that are on their way from memory at once.
constexpr int kRowsAtOnce = 4;
constexpr std::int64_t kMostBlocks = 256;
constexpr std::int64_t kLeastRows = 16;

//--------------------------------------------------------------------------------------------------
// Kernels

/// partials[block of rows * columns + c] = the sum of column c over these rows. A lane has a pack
/// of columns: which columns go together does not matter for the order of the additions.
template <class T, int kWidth, Access kAccess>
__global__ void __launch_bounds__(kWarps* kWarp)
    sums_kernel(float* partials, Rows<const T> dy, std::int64_t rows, std::int64_t columns,
                std::int64_t rows_of_block) {
  constexpr int kColumns = kWarp * kWidth;
  __shared__ float shared[kWarps][kWidth][kWarp];
  const std::int64_t block_first = static_cast<std::int64_t>(blockIdx.x) * kColumns;
  const std::int64_t left = columns - block_first - threadIdx.x * kWidth;
  const T* const first_column = dy.data + (columns - left);
  const std::int64_t first = blockIdx.y * rows_of_block;
  const std::int64_t end = std::min(first + rows_of_block, rows);
  Pack<kWidth> sum = {};
  for (std::int64_t r = first + threadIdx.y; r < end; r += kRowsAtOnce * kWarps) {
    Pack<kWidth> x[kRowsAtOnce];
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) {
      const std::int64_t row = r + k * kWarps;
      x[k] = load<kWidth, kAccess>(first_column + row * dy.stride, row < end ? left : 0);
    }
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) sum = sum + x[k];
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) shared[threadIdx.y][i][threadIdx.x] = sum.at[i];
  __syncthreads();
  const int column = static_cast<int>(threadIdx.y * kWarp + threadIdx.x);
  if (column >= kColumns || block_first + column >= columns) return;
  float total = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    total += shared[warp][column % kWidth][column / kWidth];
  }
  partials[blockIdx.y * columns + block_first + column] = total;
}

//--------------------------------------------------------------------------------------------------
// Launchers

std::int64_t rows_of_block(std::int64_t rows) {
  return std::max(kLeastRows, rounded_up(divided_up(rows, kMostBlocks), kWarps));
}

template <class T, int kWidth>
void launch_sums(float* partials, const ConstFactor& dy, cudaStream_t stream) {
  const std::int64_t in_block = rows_of_block(dy.rows);
  const dim3 grid(blocks_for(dy.columns, kWarp * kWidth), blocks_for(dy.rows, in_block));
  with_access(is_aligned(dy), dy.columns % kWidth == 0, [&](auto access) {
    launch(sums_kernel<T, kWidth, access.value>, grid, dim3(kWarp, kWarps), stream, partials,
           Rows<const T>{static_cast<const T*>(dy.data), dy.stride}, dy.rows, dy.columns, in_block);
  });
}

}  // namespace

std::int64_t column_sums_scratch_floats(std::int64_t rows, std::int64_t columns) {
  return divided_up(rows, rows_of_block(rows)) * columns;
}

void column_sums(float* sums, Write write, ConstFactor dy, float* scratch, cudaStream_t stream) {
  if (dy.element == Element::bf16) {
    launch_sums<std::uint16_t, 8>(scratch, dy, stream);
  } else {
    launch_sums<float, 4>(scratch, dy, stream);
  }
  fold_partials(sums, nullptr, write, scratch, divided_up(dy.rows, rows_of_block(dy.rows)),
                dy.columns, dy.columns, stream);
}

}  // namespace swarmpi::kernels::cuda
