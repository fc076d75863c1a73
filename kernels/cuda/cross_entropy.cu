#include "kernels/cuda/cross_entropy.hpp"

#include <limits>

#include "kernels/cuda/reduce.cuh"

namespace swarmpi::kernels::cuda {

namespace {

constexpr int kWidth = 4;
/// Most threads for a row: then the rows of all multiprocessors stay in an H100's second cache
/// between the two times that they are read.
constexpr int kMostThreads = 1024;
/// Packs of one thread that are on their way from memory at once.
constexpr int kPacksAtOnce = 4;
constexpr int kSumThreads = 256;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

//--------------------------------------------------------------------------------------------------
// Kernels

/// The sum of e^(x - largest) over all x so far.
struct Exponentials {
  float largest = -kInfinity;
  float sum = 0;

  /// As long as there is no larger one than -infinity, which counts as zero, there is nothing to
  /// subtract.
  static __device__ float shift(float largest) { return largest == -kInfinity ? 0.0f : largest; }

  __device__ void add(const Pack<kWidth> (&x)[kPacksAtOnce]) {
    float now = largest;
#pragma unroll
    for (int k = 0; k < kPacksAtOnce; ++k) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) now = fmaxf(now, x[k].at[i]);  // NaNs do not count
    }
    const float subtracted = shift(now);
    float added = 0;
#pragma unroll
    for (int k = 0; k < kPacksAtOnce; ++k) {
      Pack<kWidth> e;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) e.at[i] = expf(x[k].at[i] - subtracted);
      added += sum_of(e);
    }
    sum = sum * expf(largest - subtracted) + added;
    largest = now;
  }
};

__device__ float largest_of_block(float x, float (&shared)[kMaxWarps]) {
#pragma unroll
  for (int half = kWarp / 2; half > 0; half /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, half));
  }
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = x;
  __syncthreads();
  for (int w = 0; w < static_cast<int>(blockDim.x) / kWarp; ++w) x = fmaxf(x, shared[w]);
  return x;
}

template <class T>
struct Loss {
  double* losses;
  Rows<T> dlogits;  // data: null if it is empty
  Rows<const float> logits;
  const std::int32_t* targets;
  int columns;
};

template <Access kAccess, class T>
__device__ void clear_row(T* to, int columns) {
  for (int c = static_cast<int>(threadIdx.x) * kWidth; c < columns; c += blockDim.x * kWidth) {
    store<kWidth, kAccess>(to + c, columns - c, Pack<kWidth>{});
  }
}

template <Access kAccess>
__device__ Exponentials exponentials_of(const float* row, int columns) {
  const int step = static_cast<int>(blockDim.x) * kWidth;
  Exponentials sums;
  for (int c = static_cast<int>(threadIdx.x) * kWidth; c < columns; c += kPacksAtOnce * step) {
    Pack<kWidth> x[kPacksAtOnce];
#pragma unroll
    for (int k = 0; k < kPacksAtOnce; ++k) {
      x[k] = load<kWidth, kAccess>(row + c + k * step, columns - c - k * step, -kInfinity);
    }
    sums.add(x);
  }
  return sums;
}

/// to = e^(x - largest) * factor; `to` may be the row.
template <Access kAccess, class T>
__device__ void store_softmax(T* to, const float* row, int columns, float largest, float factor) {
  const int step = static_cast<int>(blockDim.x) * kWidth;
  for (int c = static_cast<int>(threadIdx.x) * kWidth; c < columns; c += kPacksAtOnce * step) {
    Pack<kWidth> x[kPacksAtOnce];
#pragma unroll
    for (int k = 0; k < kPacksAtOnce; ++k) {
      x[k] = load<kWidth, kAccess>(row + c + k * step, columns - c - k * step);
    }
#pragma unroll
    for (int k = 0; k < kPacksAtOnce; ++k) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) x[k].at[i] = expf(x[k].at[i] - largest) * factor;
      store<kWidth, kAccess>(to + c + k * step, columns - c - k * step, x[k]);
    }
  }
}

/// A row for each thread block.
template <class T, Access kAccess>
__global__ void __launch_bounds__(kMostThreads, 1) loss_kernel(Loss<T> of) {
  __shared__ float shared_largest[kMaxWarps];
  __shared__ double shared_sums[1][kMaxWarps];
  const std::int64_t r = blockIdx.x;
  const float* const row = of.logits.row(r);
  const std::int32_t target = of.targets[r];
  const bool has_slopes = of.dlogits.data != nullptr;
  if (target == kNoTarget) {
    if (has_slopes) clear_row<kAccess>(of.dlogits.row(r), of.columns);
    if (threadIdx.x == 0) of.losses[r] = 0.0;
    return;
  }
  // Before anything is written where the logits are.
  const float target_logit = row[target];
  const Exponentials own = exponentials_of<kAccess>(row, of.columns);
  const float largest = largest_of_block(own.largest, shared_largest);
  double sums[1] = {static_cast<double>(own.sum) *
                    static_cast<double>(expf(own.largest - largest))};
  sum_over_block(sums, shared_sums);
  if (threadIdx.x == 0) {
    of.losses[r] =
        log(sums[0]) + (static_cast<double>(largest) - static_cast<double>(target_logit));
  }
  if (!has_slopes) return;
  const auto factor = static_cast<float>(1.0 / sums[0]);
  store_softmax<kAccess>(of.dlogits.row(r), row, of.columns, largest, factor);
  // By the thread that has written the softmax there.
  if (target / kWidth % static_cast<int>(blockDim.x) == static_cast<int>(threadIdx.x)) {
    store_one(of.dlogits.row(r) + target, expf(target_logit - largest) * factor - 1.0f);
  }
}

__global__ void __launch_bounds__(kSumThreads)
    sum_losses_kernel(double* total, const double* losses, std::int64_t count, bool add) {
  __shared__ double shared[1][kMaxWarps];
  double sums[1] = {0.0};
#pragma unroll 4
  for (std::int64_t r = threadIdx.x; r < count; r += kSumThreads) sums[0] += losses[r];
  sum_over_block(sums, shared);
  if (threadIdx.x > 0) return;
  const double sum = add ? *total + sums[0] : sums[0];
  *total = sum == sum ? sum : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

//--------------------------------------------------------------------------------------------------
// Launchers

void cross_entropy(double* losses, FactorMatrix dlogits, ConstMatrix logits,
                   const std::int32_t* targets, cudaStream_t stream) {
  const auto threads = static_cast<unsigned>(std::clamp<std::int64_t>(
      rounded_up(divided_up(logits.columns, kWidth), kWarp), kWarp, kMostThreads));
  const bool aligned = is_aligned(logits) && is_aligned(dlogits);
  with_rows(dlogits, [&]<class T>(Rows<T> rows) {
    const Loss<T> of{losses, rows, rows_of(logits), targets, static_cast<int>(logits.columns)};
    with_access(aligned, logits.columns % kWidth == 0, [&](auto access) {
      launch(loss_kernel<T, access.value>, blocks_for(logits.rows, 1), threads, stream, of);
    });
  });
}

void sum_losses(double* total, const double* losses, std::int64_t count, bool add,
                cudaStream_t stream) {
  launch(sum_losses_kernel, 1, kSumThreads, stream, total, losses, count, add);
}

}  // namespace swarmpi::kernels::cuda
