#pragma once
// One head of one sequence: where its rows lie in matrices of heads side by side, and the memory of
// the worker that computes it.

#include <type_traits>

#include "kernels/native/aligned_memory.hpp"
#include "kernels/native/tile.hpp"

namespace swarmpi::kernels::native {

/// Pieces of a worker's memory, one after another. Only counted where there is no memory.
class Pieces {
 public:
  explicit Pieces(char* memory) : memory_(memory) {}

  template <class T>
  T* array(std::int64_t count) {
    char* const place = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(place);
  }
  Matrix matrix(std::int64_t rows, std::int64_t columns) {
    const std::int64_t stride = padded_stride(columns, sizeof(float));
    return {array<float>(rows * stride), rows, columns, stride};
  }
  template <class T>
  RightFactor<T> right(std::int64_t inner, std::int64_t columns) {
    return {array<T>(packed_elements<T>(inner, columns)), words_of<T>(inner)};
  }
  std::size_t size_bytes() const { return used_; }

 private:
  char* memory_;
  std::size_t used_ = 0;
};

/// Rows of one head of one sequence in a matrix of heads side by side: (T, D).
template <class Void>
FactorView<Void> head_of(FactorView<Void> m, std::int64_t part, std::int64_t item,
                         const AttentionShape& s) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
  const std::int64_t row = item / s.heads * s.context;
  const std::int64_t column = (part * s.heads + item % s.heads) * s.head_width;
  auto* const data = static_cast<Byte*>(m.data) +
                     (row * m.stride + column) * static_cast<std::int64_t>(size_of(m.element));
  return {data, s.context, s.head_width, m.stride, m.element};
}

/// The factors of one head, and their gradients: (T, D) each.
struct HeadFactors {
  ConstFactor q, k, v;

  HeadFactors(ConstFactor qkv, std::int64_t item, const AttentionShape& s)
      : q(head_of(qkv, 0, item, s)), k(head_of(qkv, 1, item, s)), v(head_of(qkv, 2, item, s)) {}
};
struct HeadGradients {
  FactorMatrix q, k, v;

  HeadGradients(FactorMatrix dqkv, std::int64_t item, const AttentionShape& s)
      : q(head_of(dqkv, 0, item, s)), k(head_of(dqkv, 1, item, s)), v(head_of(dqkv, 2, item, s)) {}
};

}  // namespace swarmpi::kernels::native
