#include "kernels/cuda/layer_norm.hpp"

#include "kernels/cuda/reduce.cuh"

namespace swarmpi::kernels::cuda {

namespace {

constexpr float kEpsilon = 1e-5f;
constexpr int kWidth = 4;
/// Of a kernel for rows that do not fit into registers: these are read again instead.
constexpr int kLongThreads = 512;
/// Most blocks of rows whose sums of columns are added up: four for each of an H100's
/// multiprocessors, about. They have at least kLeastRows rows.
constexpr std::int64_t kMostBlocks = 512;
constexpr std::int64_t kLeastRows = 4;

//--------------------------------------------------------------------------------------------------
// Kernels

template <class T>
struct Forward {
  Rows<T> y;
  float* mean;
  float* rstd;
  Rows<const float> x;
  const float* weight;
  const float* bias;
  std::int64_t rows;
  int columns;
};

/// Sums of the squares of the columns' distances from `centre`; there are `left`.
__device__ float squares_about(float centre, const Pack<kWidth>& x, int left) {
  Pack<kWidth> squares;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float distance = i < left ? x.at[i] - centre : 0.0f;
    squares.at[i] = distance * distance;
  }
  return sum_of(squares);
}

template <Access kAccess, class T>
__device__ void store_normal(const Forward<T>& of, T* y, int c, Pack<kWidth> x, float mean,
                             float rstd) {
  const int left = of.columns - c;
  const auto weight = load<kWidth, kAccess>(of.weight + c, left);
  const auto bias = load<kWidth, kAccess>(of.bias + c, left);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    x.at[i] = fmaf((x.at[i] - mean) * rstd, weight.at[i], bias.at[i]);
  }
  store<kWidth, kAccess>(y + c, left, x);
}

/// The sum over the kWarps warps that have one row, in all of them.
template <int kWarps>
__device__ float sum_over_row(float x, float (&shared)[1][kMaxWarps]) {
  if constexpr (kWarps == 1) return sum_of_warp(x);
  float sums[1] = {x};
  sum_over_block(sums, shared);
  return sums[0];
}

/// A row for each blockDim.x = 32 kWarps threads, which keep it in registers: kPacks each.
template <class T, Access kAccess, int kWarps, int kPacks>
__global__ void __launch_bounds__(kWarps < 4 ? 128 : kWarps * kWarp) forward_kernel(Forward<T> of) {
  constexpr int kStep = kWarps * kWarp * kWidth;
  __shared__ float shared[2][1][kMaxWarps];
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (r >= of.rows) return;  // a whole warp; a block of more for one row never does
  const int first = static_cast<int>(threadIdx.x) * kWidth;
  const float* const row = of.x.row(r);
  Pack<kWidth> x[kPacks];
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int c = first + i * kStep;
    x[i] = load<kWidth, kAccess>(row + c, of.columns - c);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kPacks; ++i) sum += sum_of(x[i]);
  const auto count = static_cast<float>(of.columns);
  const float mean = sum_over_row<kWarps>(sum, shared[0]) / count;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    squares += squares_about(mean, x[i], of.columns - first - i * kStep);
  }
  const float rstd = 1.0f / sqrtf(sum_over_row<kWarps>(squares, shared[1]) / count + kEpsilon);
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int c = first + i * kStep;
    if (c < of.columns) store_normal<kAccess>(of, of.y.row(r), c, x[i], mean, rstd);
  }
  if (threadIdx.x == 0) {
    of.mean[r] = mean;
    of.rstd[r] = rstd;
  }
}

/// A row for each thread block, read three times.
template <class T, Access kAccess>
__global__ void __launch_bounds__(kLongThreads) forward_long_kernel(Forward<T> of) {
  constexpr int kStep = kLongThreads * kWidth;
  __shared__ float shared[2][1][kMaxWarps];
  const std::int64_t r = blockIdx.x;
  const int first = static_cast<int>(threadIdx.x) * kWidth;
  const float* const row = of.x.row(r);
  float sums[1] = {0.0f};
  for (int c = first; c < of.columns; c += kStep) {
    sums[0] += sum_of(load<kWidth, kAccess>(row + c, of.columns - c));
  }
  sum_over_block(sums, shared[0]);
  const auto count = static_cast<float>(of.columns);
  const float mean = sums[0] / count;
  float squares[1] = {0.0f};
  for (int c = first; c < of.columns; c += kStep) {
    const int left = of.columns - c;
    squares[0] += squares_about(mean, load<kWidth, kAccess>(row + c, left), left);
  }
  sum_over_block(squares, shared[1]);
  const float rstd = 1.0f / sqrtf(squares[0] / count + kEpsilon);
  for (int c = first; c < of.columns; c += kStep) {
    const auto x = load<kWidth, kAccess>(row + c, of.columns - c);
    store_normal<kAccess>(of, of.y.row(r), c, x, mean, rstd);
  }
  if (threadIdx.x == 0) {
    of.mean[r] = mean;
    of.rstd[r] = rstd;
  }
}

template <class T>
struct Backward {
  Rows<float> dx;
  Rows<T> dx_factor;  // data: null if it is empty
  Rows<const float> dy;
  Rows<const float> x;
  const float* mean;
  const float* rstd;
  const float* weight;
  float* weight_sums;  // (blocks, sums_stride)
  float* bias_sums;
  std::int64_t sums_stride;
  std::int64_t rows;
  std::int64_t rows_of_block;
  int columns;
};

/// x becomes the normalised x, dy becomes dy * weight; both are added to the sums of this block of
/// rows.
__device__ void through_weight(Pack<kWidth>& x, Pack<kWidth>& dy, Pack<kWidth>& weight_sum,
                               Pack<kWidth>& bias_sum, float mean, float rstd,
                               const Pack<kWidth>& weight) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float normal = (x.at[i] - mean) * rstd;
    weight_sum.at[i] = fmaf(dy.at[i], normal, weight_sum.at[i]);
    bias_sum.at[i] += dy.at[i];
    x.at[i] = normal;
    dy.at[i] *= weight.at[i];
  }
}

__device__ float products_of(const Pack<kWidth>& a, const Pack<kWidth>& b) {
  Pack<kWidth> products;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) products.at[i] = a.at[i] * b.at[i];
  return sum_of(products);
}

template <Access kAccess, class T>
__device__ void store_through_norm(const Backward<T>& of, std::int64_t r, int c, Pack<kWidth> dx,
                                   const Pack<kWidth>& slope, const Pack<kWidth>& normal,
                                   float rstd, float mean_slope, float mean_along) {
  const int left = of.columns - c;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float through = fmaf(-normal.at[i], mean_along, slope.at[i] - mean_slope);
    dx.at[i] = fmaf(rstd, through, dx.at[i]);
  }
  store<kWidth, kAccess>(of.dx.row(r) + c, left, dx);
  if (of.dx_factor.data != nullptr) {
    store<kWidth, kAccess>(of.dx_factor.row(r) + c, left, dx);
  }
}

/// What one thread has of kRows rows: kPacks of columns of each, as far from one another as the
/// threads of the block reach.
template <int kPacks, int kRows>
struct Share {
  Pack<kWidth> normal[kRows][kPacks];  // x before it is normalised
  Pack<kWidth> slope[kRows][kPacks];   // dy before it is multiplied by the weight
  Pack<kWidth> dx[kRows][kPacks];
  float mean[kRows];
  float rstd[kRows];
};

/// The columns of pack i of this thread begin here.
__device__ int column_of(int i) { return static_cast<int>(threadIdx.x + i * blockDim.x) * kWidth; }

/// All at once. Rows from `end` on count as zeros.
template <Access kAccess, class T, int kPacks, int kRows>
__device__ void load_share(Share<kPacks, kRows>& share, const Backward<T>& of, std::int64_t r,
                           std::int64_t end) {
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    const int columns = r + k < end ? of.columns : 0;
    share.mean[k] = columns > 0 ? of.mean[r + k] : 0.0f;
    share.rstd[k] = columns > 0 ? of.rstd[r + k] : 0.0f;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int c = column_of(i), left = columns - c;
      share.normal[k][i] = load<kWidth, kAccess>(of.x.row(r + k) + c, left);
      share.slope[k][i] = load<kWidth, kAccess>(of.dy.row(r + k) + c, left);
      share.dx[k][i] = load<kWidth, kAccess>(of.dx.row(r + k) + c, left);
    }
  }
}

template <Access kAccess, class T, int kPacks, int kRows>
__device__ void store_share(const Share<kPacks, kRows>& share, const Backward<T>& of,
                            std::int64_t r, std::int64_t end, const float (&sums)[2 * kRows]) {
  const auto count = static_cast<float>(of.columns);
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (r + k >= end) return;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int c = column_of(i);
      if (c >= of.columns) break;
      store_through_norm<kAccess>(of, r + k, c, share.dx[k][i], share.slope[k][i],
                                  share.normal[k][i], share.rstd[k], sums[2 * k] / count,
                                  sums[2 * k + 1] / count);
    }
  }
}

/// This block's rows, kRows at a time. A thread has the same columns in all of them, so that their
/// sums stay in registers.
template <class T, Access kAccess, int kPacks, int kRows>
__global__ void __launch_bounds__(kPacks == 4 ? 512 : 256) backward_kernel(Backward<T> of) {
  __shared__ float shared[2][2 * kRows][kMaxWarps];
  const std::int64_t first = blockIdx.x * of.rows_of_block;
  const std::int64_t end = std::min(first + of.rows_of_block, of.rows);
  Pack<kWidth> weight_sums[kPacks] = {}, bias_sums[kPacks] = {};
  int turn = 0;
  for (std::int64_t r = first; r < end; r += kRows, turn ^= 1) {
    Share<kPacks, kRows> share;
    load_share<kAccess>(share, of, r, end);
    float sums[2 * kRows] = {};  // of the slopes, and of their products with the normalised row
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int c = column_of(i);
      const auto weight = load<kWidth, kAccess>(of.weight + c, of.columns - c);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        through_weight(share.normal[k][i], share.slope[k][i], weight_sums[i], bias_sums[i],
                       share.mean[k], share.rstd[k], weight);
        sums[2 * k] += sum_of(share.slope[k][i]);
        sums[2 * k + 1] += products_of(share.slope[k][i], share.normal[k][i]);
      }
    }
    sum_over_block(sums, shared[turn]);
    store_share<kAccess>(share, of, r, end, sums);
  }
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int c = column_of(i);
    if (c >= of.columns) break;
    store_whole(of.weight_sums + blockIdx.x * of.sums_stride + c, weight_sums[i]);
    store_whole(of.bias_sums + blockIdx.x * of.sums_stride + c, bias_sums[i]);
  }
}

/// The sums of columns alone, for rows of any length: a pack of columns for each thread.
template <class T, Access kAccess>
__global__ void __launch_bounds__(kLongThreads) long_sums_kernel(Backward<T> of) {
  const int c = static_cast<int>(blockIdx.y * kLongThreads + threadIdx.x) * kWidth;
  if (c >= of.columns) return;
  const int left = of.columns - c;
  const std::int64_t first = blockIdx.x * of.rows_of_block;
  const std::int64_t end = std::min(first + of.rows_of_block, of.rows);
  Pack<kWidth> weight_sum = {}, bias_sum = {};
#pragma unroll 4
  for (std::int64_t r = first; r < end; ++r) {
    auto x = load<kWidth, kAccess>(of.x.row(r) + c, left);
    auto dy = load<kWidth, kAccess>(of.dy.row(r) + c, left);
    through_weight(x, dy, weight_sum, bias_sum, of.mean[r], of.rstd[r], dy);
  }
  store_whole(of.weight_sums + blockIdx.x * of.sums_stride + c, weight_sum);
  store_whole(of.bias_sums + blockIdx.x * of.sums_stride + c, bias_sum);
}

/// The rest of it: a row for each thread block, read twice.
template <class T, Access kAccess>
__global__ void __launch_bounds__(kLongThreads) backward_long_kernel(Backward<T> of) {
  constexpr int kStep = kLongThreads * kWidth;
  __shared__ float shared[2][kMaxWarps];
  const std::int64_t r = blockIdx.x;
  const int thread_first = static_cast<int>(threadIdx.x) * kWidth;
  const auto count = static_cast<float>(of.columns);
  const float mean = of.mean[r], rstd = of.rstd[r];
  const auto load_pair = [&](int c, Pack<kWidth>& normal, Pack<kWidth>& slope) {
    Pack<kWidth> unused = {}, too = {};
    normal = load<kWidth, kAccess>(of.x.row(r) + c, of.columns - c);
    slope = load<kWidth, kAccess>(of.dy.row(r) + c, of.columns - c);
    through_weight(normal, slope, unused, too, mean, rstd,
                   load<kWidth, kAccess>(of.weight + c, of.columns - c));
  };
  Pack<kWidth> normal, slope;
  float sums[2] = {0.0f, 0.0f};
  for (int c = thread_first; c < of.columns; c += kStep) {
    load_pair(c, normal, slope);
    sums[0] += sum_of(slope);
    sums[1] += products_of(slope, normal);
  }
  sum_over_block(sums, shared);
  for (int c = thread_first; c < of.columns; c += kStep) {
    load_pair(c, normal, slope);
    const auto dx = load<kWidth, kAccess>(of.dx.row(r) + c, of.columns - c);
    store_through_norm<kAccess>(of, r, c, dx, slope, normal, rstd, sums[0] / count,
                                sums[1] / count);
  }
}

//--------------------------------------------------------------------------------------------------
// Launchers

template <class T, Access kAccess, int kWarps, int kPacks>
void launch_rows(const Forward<T>& of, cudaStream_t stream) {
  const unsigned rows = kWarps == 1 ? 4 : 1;
  launch(forward_kernel<T, kAccess, kWarps, kPacks>, blocks_for(of.rows, rows),
         dim3(kWarps * kWarp, rows), stream, of);
}

template <class T, Access kAccess>
void launch_forward(const Forward<T>& of, cudaStream_t stream) {
  const int packs = static_cast<int>(divided_up(of.columns, kWidth));
  if (packs <= 2 * kWarp) {
    launch_rows<T, kAccess, 1, 2>(of, stream);
  } else if (packs <= 8 * kWarp) {
    launch_rows<T, kAccess, 1, 8>(of, stream);
  } else if (packs <= 4 * 4 * kWarp) {
    launch_rows<T, kAccess, 4, 4>(of, stream);
  } else if (packs <= 4 * 8 * kWarp) {
    launch_rows<T, kAccess, 4, 8>(of, stream);
  } else if (packs <= 8 * 8 * kWarp) {
    launch_rows<T, kAccess, 8, 8>(of, stream);
  } else {
    launch(forward_long_kernel<T, kAccess>, blocks_for(of.rows, 1), kLongThreads, stream, of);
  }
}

std::int64_t rows_of_block(std::int64_t rows) {
  return std::max(kLeastRows, rounded_up(divided_up(rows, kMostBlocks), kLeastRows));
}

template <class T, Access kAccess, int kPacks, int kRows>
void launch_blocks(const Backward<T>& of, cudaStream_t stream) {
  const auto threads =
      static_cast<unsigned>(rounded_up(divided_up(of.columns, kPacks * kWidth), kWarp));
  launch(backward_kernel<T, kAccess, kPacks, kRows>, blocks_for(of.rows, of.rows_of_block), threads,
         stream, of);
}

template <class T, Access kAccess>
void launch_backward(const Backward<T>& of, cudaStream_t stream) {
  const std::int64_t packs = divided_up(of.columns, kWidth);
  if (packs <= 256) {
    launch_blocks<T, kAccess, 1, 4>(of, stream);
  } else if (packs <= 2 * 256) {
    launch_blocks<T, kAccess, 2, 2>(of, stream);
  } else if (packs <= 4 * 512) {
    launch_blocks<T, kAccess, 4, 1>(of, stream);
  } else {
    // The sums first: what they read may be where the rest writes.
    launch(long_sums_kernel<T, kAccess>,
           dim3(blocks_for(of.rows, of.rows_of_block), blocks_for(packs, kLongThreads)),
           kLongThreads, stream, of);
    launch(backward_long_kernel<T, kAccess>, blocks_for(of.rows, 1), kLongThreads, stream, of);
  }
}

}  // namespace

void layer_norm_forward(FactorMatrix y, float* mean, float* rstd, ConstMatrix x,
                        const float* weight, const float* bias, cudaStream_t stream) {
  const bool aligned = is_aligned(y) && is_aligned(x) && is_aligned(weight) && is_aligned(bias);
  with_rows(y, [&]<class T>(Rows<T> rows) {
    const Forward<T> of{rows,   mean, rstd,   rows_of(x),
                        weight, bias, x.rows, static_cast<int>(x.columns)};
    with_access(aligned, x.columns % kWidth == 0,
                [&](auto access) { launch_forward<T, access.value>(of, stream); });
  });
}

std::int64_t layer_norm_scratch_floats(std::int64_t rows, std::int64_t columns) {
  return 2 * divided_up(rows, rows_of_block(rows)) * rounded_up(columns, kWidth);
}

void layer_norm_backward(Matrix dx, FactorMatrix dx_factor, float* weight_gradient,
                         float* bias_gradient, Write write, ConstMatrix dy, ConstMatrix x,
                         const float* mean, const float* rstd, const float* weight, float* scratch,
                         cudaStream_t stream) {
  const std::int64_t stride = rounded_up(x.columns, kWidth);
  const std::int64_t in_block = rows_of_block(x.rows);
  const std::int64_t blocks = divided_up(x.rows, in_block);
  const bool aligned = is_aligned(dx) && is_aligned(dx_factor) && is_aligned(dy) && is_aligned(x) &&
                       is_aligned(weight);
  with_rows(dx_factor, [&]<class T>(Rows<T> rows) {
    const Backward<T> of{rows_of(dx),
                         rows,
                         rows_of(dy),
                         rows_of(x),
                         mean,
                         rstd,
                         weight,
                         scratch,
                         scratch + blocks * stride,
                         stride,
                         x.rows,
                         in_block,
                         static_cast<int>(x.columns)};
    with_access(aligned, x.columns % kWidth == 0,
                [&](auto access) { launch_backward<T, access.value>(of, stream); });
  });
  fold_partials(weight_gradient, bias_gradient, write, scratch, blocks, stride, x.columns, stream);
}

}  // namespace swarmpi::kernels::cuda
