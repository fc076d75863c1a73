#include <algorithm>
#include <cstdint>

#include "kernels/block_sum.hpp"
#include "kernels/cuda/optimizer.hpp"
#include "kernels/cuda/state_hash.hpp"
#include "kernels/fixed_point_element.hpp"
#include "kernels/optimizer_element.hpp"
#include "kernels/state_hash.hpp"

namespace swarmpi::kernels::cuda {

namespace {

constexpr int kThreads = 256;
/// Elements of one thread whose loads are under way at once.
constexpr int kAtOnce = 4;
constexpr std::int64_t kTile = kThreads * kAtOnce;
constexpr int kThreadBlocks = 4;  ///< on a multiprocessor at a time: enough loads to be busy
/// 16 for each of an H100's multiprocessors. More would wait for the one word of the hash.
constexpr std::int64_t kMostBlocks = 16 * 132;
/// Blocks' sums that are brought near at once, to be added in index order.
constexpr int kFoldedAtOnce = 1024;

/// LAMB's scratch memory: of each block of 4096 two sums of squares, then one word.
struct LambScratch {
  double* weight_squares;     // (blocks)
  double* direction_squares;  // (blocks)
  float* step;                ///< how far weights go along their direction
  std::int64_t blocks;
};

//--------------------------------------------------------------------------------------------------
// Kernels

// The gradient in either form. Loads come apart from the arithmetic, so that many can be under way.

struct RoundedGradient {
  const float* rounded;

  using Loaded = float;
  __device__ Loaded load(std::int64_t i) const { return rounded[i]; }
  __device__ float value(Loaded loaded) const { return loaded; }
};

struct SummedGradient {
  const std::int64_t* sums;
  double quantum_per_token;

  using Loaded = std::int64_t;
  __device__ Loaded load(std::int64_t i) const { return sums[i]; }
  __device__ float value(Loaded loaded) const { return rounded_mean(loaded, quantum_per_token); }
};

struct State {
  float weight;
  Moments moments;
};

__device__ State load_state(const UpdateBuffers& b, std::int64_t i) {
  return {b.old_weights[i], {b.moment1[i], b.moment2[i]}};
}
__device__ std::uint64_t hash_of(const State& s, HashKeys keys) {
  return hash_element(s.weight, s.moments.first, s.moments.second, keys);
}

/// Calls body(first) for this thread's part of each tile: kAtOnce elements from `first` on, each
/// as far behind the one before as there are threads.
template <class Body>
__device__ void for_each_tile(std::int64_t count, const Body& body) {
  for (std::int64_t tile = blockIdx.x * kTile; tile < count; tile += gridDim.x * kTile) {
    body(tile + static_cast<int>(threadIdx.x));
  }
}
/// Calls body(k, i) for them, at most `count`.
template <class Body>
__device__ void for_each_element(std::int64_t first, std::int64_t count, const Body& body) {
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k) {
    if (first + k * kThreads < count) body(k, first + k * kThreads);
  }
}
/// The same for loads: behind the end the last is loaded again. Without a branch all go out
/// together.
template <class Body>
__device__ void for_each_load(std::int64_t first, std::int64_t count, const Body& body) {
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k) {
    const std::int64_t i = first + k * kThreads;
    body(k, i < count ? i : count - 1);
  }
}

/// All of AdamW in one pass: memory is what bounds it. Old and new weights may be the same array:
/// every thread loads its elements before it stores them.
template <class Gradient>
__global__ void __launch_bounds__(kThreads, kThreadBlocks)
    adamw(UpdateBuffers b, Gradient gradient, UpdateParameters p, std::uint64_t* hash,
          std::uint64_t* hash_before) {
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  for_each_tile(b.count, [&](std::int64_t first) {
    State states[kAtOnce];
    typename Gradient::Loaded gradients[kAtOnce];
    for_each_load(first, b.count, [&](int k, std::int64_t i) {
      states[k] = load_state(b, i);
      gradients[k] = gradient.load(i);
    });
    const PlaceKeys keys(b.first_index + first);
    for_each_element(first, b.count, [&](int k, std::int64_t i) {
      const State& old = states[k];
      const HashKeys here = keys.at(k * kThreads);
      if (hash_before != nullptr) before += hash_of(old, here);
      const Moments next = next_moments(old.moments, gradient.value(gradients[k]), p);
      const float direction = update_direction(next, old.weight, p);
      const State written{stepped_weight(old.weight, p.lr, direction), next};
      after += hash_of(written, here);
      b.moment1[i] = next.first;
      b.moment2[i] = next.second;
      b.new_weights[i] = written.weight;
    });
  });
  add_block_sum(hash, after);
  if (hash_before != nullptr) add_block_sum(hash_before, before);
}

/// LAMB's first pass over one block of a sum: the moments, and in shared memory what is to be
/// squared.
template <class Gradient>
__device__ void update_moments(float* weights, float* directions, const UpdateBuffers& b,
                               const Gradient& gradient, const UpdateParameters& p,
                               std::int64_t start, std::int64_t end) {
  for (std::int64_t tile = start; tile < end; tile += kTile) {
    const std::int64_t first = tile + static_cast<int>(threadIdx.x);
    State states[kAtOnce];
    typename Gradient::Loaded gradients[kAtOnce];
    for_each_load(first, end, [&](int k, std::int64_t i) {
      states[k] = load_state(b, i);
      gradients[k] = gradient.load(i);
    });
    for_each_element(first, end, [&](int k, std::int64_t i) {
      const Moments next = next_moments(states[k].moments, gradient.value(gradients[k]), p);
      b.moment1[i] = next.first;
      b.moment2[i] = next.second;
      weights[i - start] = states[k].weight;
      directions[i - start] = update_direction(next, states[k].weight, p);
    });
  }
}

/// sum_lanes() of the squares of a block of values, by 16 threads of a warp whose other 16 do the
/// same with another block.
__device__ double lane_sum_of_squares(const float* values, int count) {
  double sum = 0;
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x % kSumLanes); i < count; i += kSumLanes) {
    sum += exact_square(values[i]);
  }
  for (int half = kSumLanes / 2; half > 0; half /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, half, kSumLanes);
  }
  return sum;
}

/// One block of threads for each block of a sum.
template <class Gradient>
__global__ void __launch_bounds__(kThreads)
    lamb_moments(UpdateBuffers b, Gradient gradient, UpdateParameters p, LambScratch to) {
  __shared__ float weights[kSumBlock];
  __shared__ float directions[kSumBlock];
  const std::int64_t start = blockIdx.x * kSumBlock;
  const std::int64_t end = b.count - start < kSumBlock ? b.count : start + kSumBlock;
  update_moments(weights, directions, b, gradient, p, start, end);
  __syncthreads();
  if (threadIdx.x >= 2 * kSumLanes) return;  // one warp stays
  const bool is_second = threadIdx.x >= kSumLanes;
  const double sum =
      lane_sum_of_squares(is_second ? directions : weights, static_cast<int>(end - start));
  if (threadIdx.x % kSumLanes == 0) {
    (is_second ? to.direction_squares : to.weight_squares)[blockIdx.x] = sum;
  }
}

/// Adds up both sums of squares, each in index order by one thread; the others bring the values
/// near.
__global__ void __launch_bounds__(kThreads)
    lamb_step(LambScratch scratch, float lr, float* trust_ratio_to) {
  __shared__ double weights[kFoldedAtOnce];
  __shared__ double directions[kFoldedAtOnce];
  __shared__ double direction_squares;
  const double* const adds =
      threadIdx.x == 0 ? weights : (threadIdx.x == warpSize ? directions : nullptr);
  double sum = 0;
  for (std::int64_t first = 0; first < scratch.blocks; first += kFoldedAtOnce) {
    const std::int64_t left = scratch.blocks - first;
    const int size = static_cast<int>(left < kFoldedAtOnce ? left : kFoldedAtOnce);
    for (int i = static_cast<int>(threadIdx.x); i < size; i += kThreads) {
      weights[i] = scratch.weight_squares[first + i];
      directions[i] = scratch.direction_squares[first + i];
    }
    __syncthreads();
    if (adds != nullptr) {
#pragma unroll 16
      for (int i = 0; i < size; ++i) sum += adds[i];
    }
    __syncthreads();
  }
  if (threadIdx.x == warpSize) direction_squares = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  const float ratio = trust_ratio(sum, direction_squares);
  *scratch.step = lr * ratio;
  if (trust_ratio_to != nullptr) *trust_ratio_to = ratio;
}

/// LAMB's second pass, when the length of the step is known.
__global__ void __launch_bounds__(kThreads, kThreadBlocks)
    lamb_weights(UpdateBuffers b, UpdateParameters p, const float* step_from, std::uint64_t* hash) {
  const float step = *step_from;
  std::uint64_t sum = 0;
  for_each_tile(b.count, [&](std::int64_t first) {
    State states[kAtOnce];
    for_each_load(first, b.count, [&](int k, std::int64_t i) { states[k] = load_state(b, i); });
    const PlaceKeys keys(b.first_index + first);
    for_each_element(first, b.count, [&](int k, std::int64_t i) {
      State& state = states[k];
      const float direction = update_direction(state.moments, state.weight, p);
      state.weight = stepped_weight(state.weight, step, direction);
      sum += hash_of(state, keys.at(k * kThreads));
      b.new_weights[i] = state.weight;
    });
  });
  add_block_sum(hash, sum);
}

//--------------------------------------------------------------------------------------------------
// Launchers

std::int64_t sum_blocks_of(std::int64_t count) { return (count + kSumBlock - 1) / kSumBlock; }

unsigned blocks_of_pass(std::int64_t count) {
  return static_cast<unsigned>(std::min((count + kTile - 1) / kTile, kMostBlocks));
}

LambScratch lamb_scratch(void* scratch, std::int64_t count) {
  const std::int64_t blocks = sum_blocks_of(count);
  auto* const squares = static_cast<double*>(scratch);
  auto* const step = reinterpret_cast<float*>(squares + 2 * blocks);
  return {squares, squares + blocks, step, blocks};
}

/// Calls launch(gradient) with either form of it.
template <class Launch>
void with_gradient(const ReducedGradient& gradient, const Launch& launch) {
  if (gradient.rounded != nullptr) {
    launch(RoundedGradient{gradient.rounded});
  } else {
    launch(SummedGradient{gradient.sums, gradient.quantum_per_token});
  }
}

void set_to_zero(std::uint64_t* hash, cudaStream_t stream) {
  cudaMemsetAsync(hash, 0, sizeof *hash, stream);
}

}  // namespace

void update_adamw(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                  std::uint64_t* hash, std::uint64_t* hash_before, cudaStream_t stream) {
  set_to_zero(hash, stream);
  if (hash_before != nullptr) set_to_zero(hash_before, stream);
  if (buffers.count == 0) return;
  with_gradient(buffers.gradient, [&](const auto& gradient) {
    adamw<<<blocks_of_pass(buffers.count), kThreads, 0, stream>>>(buffers, gradient, parameters,
                                                                  hash, hash_before);
  });
}

std::size_t lamb_scratch_bytes(std::int64_t count) {
  return static_cast<std::size_t>(2 * sum_blocks_of(count) + 1) * sizeof(double);
}

void update_lamb(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                 std::uint64_t* hash, float* trust_ratio, void* scratch, cudaStream_t stream) {
  set_to_zero(hash, stream);
  const LambScratch sums = lamb_scratch(scratch, buffers.count);
  if (sums.blocks > 0) {
    with_gradient(buffers.gradient, [&](const auto& gradient) {
      lamb_moments<<<static_cast<unsigned>(sums.blocks), kThreads, 0, stream>>>(buffers, gradient,
                                                                                parameters, sums);
    });
  }
  lamb_step<<<1, kThreads, 0, stream>>>(sums, parameters.lr, trust_ratio);
  if (buffers.count == 0) return;
  lamb_weights<<<blocks_of_pass(buffers.count), kThreads, 0, stream>>>(buffers, parameters,
                                                                       sums.step, hash);
}

}  // namespace swarmpi::kernels::cuda
