#pragma once
// The state hash (kernels/state_hash.hpp) of what lies on the device. Hashes are put to words of
// the device; a sum of integers may be added up in any order.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace swarmpi::kernels::cuda {

/// Sets *hash to hash_of_weights().
void hash_weights(std::uint64_t* hash, const float* weights, std::int64_t count,
                  std::int64_t first_index, cudaStream_t stream);

/// Sets *hash to hash_of_state(). moment1 and moment2 are both there.
void hash_state(std::uint64_t* hash, const float* weights, const float* moment1,
                const float* moment2, std::int64_t count, std::int64_t first_index,
                cudaStream_t stream);

/// Adds hash_of_bytes() to zero, or with `is_next` to 31 times what *hash is: so several arrays,
/// one after the other, make one hash. REQUIRES: `bytes` are aligned to 4.
void hash_bytes(std::uint64_t* hash, const std::byte* bytes, std::size_t size,
                std::int64_t first_word, bool is_next, cudaStream_t stream);

/// Whether the current device has code of this program.
cudaError_t find_kernel();

#ifdef __CUDACC__
/// Adds the values of all threads of a block to *sum. All of them call.
__device__ inline void add_block_sum(std::uint64_t* sum, std::uint64_t value) {
  using Word = unsigned long long;  // what atomicAdd() is declared for
  static_assert(sizeof(Word) == sizeof(std::uint64_t));
  __shared__ Word of_block;
  __syncthreads();  // an earlier call may still read it
  if (threadIdx.x == 0) of_block = 0;
  __syncthreads();
  for (int half = warpSize / 2; half > 0; half /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, half);
  }
  if (threadIdx.x % warpSize == 0) atomicAdd(&of_block, static_cast<Word>(value));
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<Word*>(sum), of_block);
}
#endif

}  // namespace swarmpi::kernels::cuda
