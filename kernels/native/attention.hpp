#pragma once
// Causal attention in strips: 64 queries against all keys that any of them sees. Never a matrix of
// all pairs.

#include "kernels/native/aligned_memory.hpp"
#include "kernels/native/product.hpp"

namespace swarmpi::kernels::native {

class Attention {
 public:
  explicit Attention(Products& products) : products_(products) {}

  void reserve(const AttentionShape& shape);
  void forward(Matrix out, float* log_sum, ConstMatrix qkv, const AttentionShape& shape);
  void backward(Matrix dqkv, ConstMatrix dout, ConstMatrix qkv, ConstMatrix out,
                const float* log_sum, const AttentionShape& shape);

 private:
  struct Head;
  struct Strip;
  struct Block;
  std::size_t strip_bytes(std::int64_t context) const;
  Strip strip_of(int worker, std::int64_t context);
  Factor strip_factor(Matrix strip, void* copy, std::int64_t context) const;
  void forward_block(const Head& head, const Strip& strip, const Block& block, int worker);
  void backward_block(const Head& head, const Strip& strip, const Block& block, Write write,
                      int worker);

  Products& products_;
  Scratch strips_;
  Scratch qkv_copy_;
  Scratch dout_copy_;
};

}  // namespace swarmpi::kernels::native
