#pragma once
// Causal attention by blocks of queries and all keys that any of them sees. Never a matrix of all
// pairs.

#include "kernels/native/aligned_memory.hpp"

namespace swarmpi::kernels::native {

/// How attention multiplies its factors: in fp32; rounded to bf16, in tiles of AMX, in pairs in
/// vectors, or in fp32. Each has bits of its own.
enum class AttentionArithmetic : std::uint8_t { fp32, tiles, bf16_pairs, rounded_fp32 };

class Attention {
 public:
  explicit Attention(AttentionArithmetic arithmetic) : arithmetic_(arithmetic) {}
  /// By what is fastest here. `multiplies_bf16`, `has_amx`: whether the other products do, and may
  /// use AMX.
  static AttentionArithmetic fastest(Precision precision, bool multiplies_bf16, bool has_amx);

  Need need(const AttentionShape& shape);
  void forward(FactorMatrix out, float* log_sum, ConstFactor qkv, const AttentionShape& shape);
  void backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                const float* log_sum, const AttentionShape& shape);

 private:
  AttentionArithmetic arithmetic_;
  Scratch scratch_;  // of all workers
};

}  // namespace swarmpi::kernels::native
