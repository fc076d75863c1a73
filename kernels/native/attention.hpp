#pragma once
// Causal attention in strips: 64 queries against all keys that any of them sees. Never a matrix of
// all pairs.

#include <array>

#include "kernels/native/aligned_memory.hpp"
#include "kernels/native/product.hpp"

namespace swarmpi::kernels::native {

class Attention {
 public:
  explicit Attention(Products& products)
      : products_(products), queries_(products.rounds() ? kQueriesBf16 : kQueries) {}

  std::array<Need, 3> needs(const AttentionShape& shape);
  void forward(Matrix out, float* log_sum, ConstMatrix qkv, const AttentionShape& shape);
  void backward(Matrix dqkv, ConstMatrix dout, ConstMatrix qkv, ConstMatrix out,
                const float* log_sum, const AttentionShape& shape);

 private:
  // Taller strips make faster products, and more of them in vain above the diagonal.
  static constexpr std::int64_t kQueries = 64;
  static constexpr std::int64_t kQueriesBf16 = 128;

  struct Head;
  struct Strip;
  struct Block;
  std::size_t strip_bytes(std::int64_t context) const;
  Strip strip_of(int worker, std::int64_t context);
  void finish_row(const Matrix& strip, const Factor& factor, std::int64_t row, std::int64_t seen,
                  std::int64_t keys) const;
  void forward_block(const Head& head, const Strip& strip, const Block& block, int worker);
  void backward_block(const Head& head, const Strip& strip, const Block& block, Write write,
                      int worker);

  Products& products_;
  const std::int64_t queries_;  ///< of a strip
  Scratch strips_;
  Scratch qkv_copy_;
  Scratch dout_copy_;
};

}  // namespace swarmpi::kernels::native
