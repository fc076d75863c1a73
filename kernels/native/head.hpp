#pragma once
// Softmax and cross-entropy over the vocabulary, some hundred rows at a time: the logits of all
// rows are never there at once.

#include <array>

#include "kernels/native/aligned_memory.hpp"
#include "kernels/native/product.hpp"
#include "kernels/native/weight.hpp"

namespace swarmpi::kernels::native {

class LossHead {
 public:
  explicit LossHead(Products& products) : products_(products) {}

  /// Rows of logits that are there at once: up to 128 MiB of them, or 16 rows. Blocks are as even
  /// as they can be: a product of few rows is slow.
  static std::int64_t rows_at_once(std::int64_t rows, std::int64_t vocabulary);

  std::array<Need, 4> needs(std::int64_t rows, std::int64_t width, std::int64_t vocabulary);
  /// `weight`: (V, C).
  double loss(ConstFactor x, const NativeWeight& weight, const std::int32_t* targets);
  double loss_backward(Matrix dx, Matrix weight_gradient, ConstFactor x, const NativeWeight& weight,
                       const std::int32_t* targets);

 private:
  Matrix logits(std::int64_t rows, std::int64_t vocabulary);
  /// Where the slopes of such logits go as a factor: over them, or rounded, elsewhere.
  FactorMatrix slopes(const Matrix& logits);

  Products& products_;
  Scratch x_copy_;
  Scratch logits_;
  Scratch logits_copy_;
  Scratch losses_;
};

}  // namespace swarmpi::kernels::native
