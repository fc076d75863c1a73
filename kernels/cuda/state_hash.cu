#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/cuda/state_hash.hpp"
#include "kernels/state_hash.hpp"

namespace swarmpi::kernels::cuda {

namespace {

constexpr int kThreads = 256;
/// Elements of one thread whose loads are under way at once.
constexpr int kAtOnce = 8;
constexpr std::int64_t kTile = kThreads * kAtOnce;
/// Eight for each of an H100's multiprocessors. More would wait for the one word of the hash.
constexpr std::int64_t kMostBlocks = 8 * 132;

//--------------------------------------------------------------------------------------------------
// Kernels

// What is hashed at one place. Loads come apart from the arithmetic, so that many can be under way.

struct OfWeights {
  const float* weights;

  using Loaded = float;
  __device__ Loaded load(std::int64_t i) const { return weights[i]; }
  __device__ std::uint64_t hash(Loaded weight, HashKeys keys) const {
    return hash_word(hashed_bits(weight), keys);
  }
};

struct OfState {
  const float* weights;
  const float* moment1;
  const float* moment2;

  struct Loaded {
    float weight, moment1, moment2;
  };
  __device__ Loaded load(std::int64_t i) const { return {weights[i], moment1[i], moment2[i]}; }
  __device__ std::uint64_t hash(Loaded at, HashKeys keys) const {
    return hash_element(at.weight, at.moment1, at.moment2, keys);
  }
};

struct OfWords {
  const std::byte* bytes;
  std::int64_t size;

  using Loaded = std::uint32_t;
  /// The last word may be cut short: zeros are behind it.
  __device__ Loaded load(std::int64_t i) const {
    constexpr std::int64_t kWord = sizeof(Loaded);
    if ((i + 1) * kWord <= size) return reinterpret_cast<const Loaded*>(bytes)[i];
    Loaded word = 0;
    for (std::int64_t at = i * kWord; at < size; ++at) {
      word |= static_cast<Loaded>(bytes[at]) << 8 * (at % kWord);
    }
    return word;
  }
  __device__ std::uint64_t hash(Loaded word, HashKeys keys) const { return hash_word(word, keys); }
};

template <class Of>
__global__ void __launch_bounds__(kThreads)
    add_hash(std::uint64_t* hash, Of of, std::int64_t count, std::int64_t first_index) {
  std::uint64_t sum = 0;
  for (std::int64_t tile = blockIdx.x * kTile; tile < count; tile += gridDim.x * kTile) {
    const std::int64_t first = tile + static_cast<int>(threadIdx.x);
    const PlaceKeys keys(first_index + first);
    typename Of::Loaded loaded[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      // Behind the end the last is loaded again: without a branch all loads go out together.
      const std::int64_t i = first + k * kThreads;
      loaded[k] = of.load(i < count ? i : count - 1);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * kThreads < count) sum += of.hash(loaded[k], keys.at(k * kThreads));
    }
  }
  add_block_sum(hash, sum);
}

__global__ void multiply(std::uint64_t* hash, std::uint64_t factor) { *hash *= factor; }

//--------------------------------------------------------------------------------------------------
// Launchers

template <class Of>
void launch_add(std::uint64_t* hash, const Of& of, std::int64_t count, std::int64_t first_index,
                cudaStream_t stream) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(std::min((count + kTile - 1) / kTile, kMostBlocks));
  add_hash<<<blocks, kThreads, 0, stream>>>(hash, of, count, first_index);
}

void set_to_zero(std::uint64_t* hash, cudaStream_t stream) {
  cudaMemsetAsync(hash, 0, sizeof *hash, stream);
}

}  // namespace

void hash_weights(std::uint64_t* hash, const float* weights, std::int64_t count,
                  std::int64_t first_index, cudaStream_t stream) {
  set_to_zero(hash, stream);
  launch_add(hash, OfWeights{weights}, count, first_index, stream);
}

void hash_state(std::uint64_t* hash, const float* weights, const float* moment1,
                const float* moment2, std::int64_t count, std::int64_t first_index,
                cudaStream_t stream) {
  set_to_zero(hash, stream);
  launch_add(hash, OfState{weights, moment1, moment2}, count, first_index, stream);
}

void hash_bytes(std::uint64_t* hash, const std::byte* bytes, std::size_t size,
                std::int64_t first_word, bool is_next, cudaStream_t stream) {
  if (is_next) {
    multiply<<<1, 1, 0, stream>>>(hash, 31);
  } else {
    set_to_zero(hash, stream);
  }
  const auto words = static_cast<std::int64_t>((size + 3) / 4);
  launch_add(hash, OfWords{bytes, static_cast<std::int64_t>(size)}, words, first_word, stream);
}

cudaError_t find_kernel() {
  cudaFuncAttributes found{};
  return cudaFuncGetAttributes(&found, multiply);
}

}  // namespace swarmpi::kernels::cuda
