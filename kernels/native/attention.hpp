#pragma once
// Causal attention in strips: 32 queries against all keys that any of them sees. Never a matrix of
// all pairs.

#include "kernels/native/aligned_memory.hpp"

namespace swarmpi::kernels::native {

class Attention {
 public:
  explicit Attention(Precision precision) : precision_(precision) {}

  Need need(const AttentionShape& shape);
  void forward(FactorMatrix out, float* log_sum, ConstFactor qkv, const AttentionShape& shape);
  void backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                const float* log_sum, const AttentionShape& shape);

 private:
  Precision precision_;
  Scratch scratch_;  // of all workers
};

}  // namespace swarmpi::kernels::native
