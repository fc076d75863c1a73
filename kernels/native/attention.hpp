#pragma once
// Causal attention in strips: 32 queries against all keys that any of them sees. Never a matrix of
// all pairs.

#include "kernels/native/aligned_memory.hpp"

namespace swarmpi::kernels::native {

class Attention {
 public:
  /// `bf16_pairs`: whether to multiply pairs of bf16, where this build can.
  Attention(Precision precision, bool bf16_pairs)
      : precision_(precision), bf16_pairs_(bf16_pairs) {}

  Need need(const AttentionShape& shape);
  void forward(FactorMatrix out, float* log_sum, ConstFactor qkv, const AttentionShape& shape);
  void backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                const float* log_sum, const AttentionShape& shape);

 private:
  Precision precision_;
  bool bf16_pairs_;
  Scratch scratch_;  // of all workers
};

}  // namespace swarmpi::kernels::native
