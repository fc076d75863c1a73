#pragma once
// Instruction sets that compilers use unasked once -march allows them. FOR_EACH(macro of the
// compiler, name for __builtin_cpu_supports).

#include <cstdint>

// NOLINTBEGIN(cppcoreguidelines-macro-usage): a name that the preprocessor must see
#if __GNUC__ >= 12 || __clang_major__ >= 14
#define SWARMPI_NEWER_SETS(FOR_EACH) FOR_EACH(__AVX512FP16__, "avx512fp16")
#else
#define SWARMPI_NEWER_SETS(FOR_EACH)
#endif
#define SWARMPI_INSTRUCTION_SETS(FOR_EACH)         \
  FOR_EACH(__SSE4_2__, "sse4.2")                   \
  FOR_EACH(__POPCNT__, "popcnt")                   \
  FOR_EACH(__AVX__, "avx")                         \
  FOR_EACH(__AVX2__, "avx2")                       \
  FOR_EACH(__FMA__, "fma")                         \
  FOR_EACH(__BMI__, "bmi")                         \
  FOR_EACH(__BMI2__, "bmi2")                       \
  FOR_EACH(__AVX512F__, "avx512f")                 \
  FOR_EACH(__AVX512CD__, "avx512cd")               \
  FOR_EACH(__AVX512BW__, "avx512bw")               \
  FOR_EACH(__AVX512DQ__, "avx512dq")               \
  FOR_EACH(__AVX512VL__, "avx512vl")               \
  FOR_EACH(__AVX512IFMA__, "avx512ifma")           \
  FOR_EACH(__AVX512VBMI__, "avx512vbmi")           \
  FOR_EACH(__AVX512VBMI2__, "avx512vbmi2")         \
  FOR_EACH(__AVX512VNNI__, "avx512vnni")           \
  FOR_EACH(__AVX512BITALG__, "avx512bitalg")       \
  FOR_EACH(__AVX512VPOPCNTDQ__, "avx512vpopcntdq") \
  FOR_EACH(__AVX512BF16__, "avx512bf16")           \
  SWARMPI_NEWER_SETS(FOR_EACH)
// NOLINTEND(cppcoreguidelines-macro-usage)

namespace swarmpi::kernels::native {

/// A bit for each set that this folder was compiled for, in the order above; a constant, no code.
extern const std::uint64_t kCompiledSets;

}  // namespace swarmpi::kernels::native
