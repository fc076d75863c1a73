#pragma once
// The instructions of tensor cores and what goes with them: copies that run beside the work, and
// matrices of 8 x 8 bf16 between shared memory and the registers of a warp.
//
// multiply_add() is of 16 x 8 results and 16 products each. With g = lane / 4 and t = lane % 4, a
// lane holds, as pairs of bf16 in a register and lower index in the lower half:
//   left (16 x 16):   [0] row g, columns 2t and 2t + 1;  [1] row g + 8;  [2], [3] columns 8 further
//   right (16 x 8):   [0] rows 2t and 2t + 1, column g;  [1] rows 8 further
//   results (16 x 8): [0], [1] row g, columns 2t and 2t + 1;  [2], [3] row g + 8

#include <cstdint>

namespace swarmpi::kernels::cuda {

/// A pointer into shared memory, as the instructions below take it.
inline __device__ std::uint32_t shared_address(const void* place) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(place));
}

/// Begins to copy 16 bytes to shared memory, or zeros if they are not `there`; `from` must be a
/// good address anyway.
inline __device__ void copy_16_bytes(std::uint32_t to, const void* from, bool there) {
  const int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}
inline __device__ void copy_4_bytes(std::uint32_t to, const void* from, bool there) {
  const int bytes = there ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}
/// This thread's copies are done; other threads see them after a barrier.
inline __device__ void wait_for_copies() { asm volatile("cp.async.wait_all;\n" ::: "memory"); }

/// Four matrices of 8 x 8 bf16: lanes 8i to 8i + 7 give the addresses of the rows of matrix i. A
/// lane gets columns 2t and 2t + 1 of row g of each.
inline __device__ void load_matrices(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
/// Likewise, of their transposes: a lane gets rows 2t and 2t + 1 of column g.
inline __device__ void load_transposed(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

/// sums += left * right, in fp32.
inline __device__ void multiply_add(float (&sums)[4], const std::uint32_t (&left)[4],
                                    std::uint32_t right0, std::uint32_t right1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

/// Both rounded to the nearest bf16, ties to even.
inline __device__ std::uint32_t bf16_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// Denormals are zeros of their sign, as in kernels/bfloat16.hpp.
inline __device__ float flushed_product(float a, float b) {
  float product;
  asm("mul.ftz.f32 %0, %1, %2;\n" : "=f"(product) : "f"(a), "f"(b));
  return product;
}
/// 2^x to about 22 bits.
inline __device__ float fast_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(power) : "f"(x));
  return power;
}

// Over the four lanes that hold a row of results; all of them get it.
inline __device__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
inline __device__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

}  // namespace swarmpi::kernels::cuda
