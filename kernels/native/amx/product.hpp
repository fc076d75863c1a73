#pragma once
// Products of bf16 factors in AMX tiles. The result comes in blocks of 32 rows and some hundred
// columns, and each is handed over while it lies in a near cache: what follows a product (a bias,
// GELU, the conversion to integers) costs no way to memory and back. An element is one chain of
// sums in fp32 over 32 elements of the inner dimension each, so its bits depend on nothing but its
// row of the left factor and its column of the right one; where the inner dimension goes in parts,
// on these.

#include "kernels/native/aligned_memory.hpp"
#include "kernels/native/factor.hpp"

namespace swarmpi::kernels::native {

/// Rows of a block, and columns of the panels that right factors are packed in.
inline constexpr std::int64_t kAmxBlock = 32;

/// (rows, columns) = a (rows, inner) b (inner, columns). b: in panels of kAmxBlock columns, or in
/// rows, which are packed in every product.
struct AmxProduct {
  std::int64_t rows, columns, inner;
  Factor a, b;
  std::int64_t whole_inner = inner;  ///< of panels, where only a part of them is multiplied

  /// The part of the inner dimension from `first` on, a multiple of kPanelRows, as if it were all.
  AmxProduct part(std::int64_t first, std::int64_t count) const;
};

/// Part of the result; the last rows may be fewer.
struct AmxBlock {
  std::int64_t row, column;  ///< of its first element
  Matrix sums;               ///< may be written to
  int worker;

  /// The part of a matrix of the result's size that this is.
  template <class T>
  MatrixView<T> of(const MatrixView<T>& whole) const {
    return {whole.row(row) + column, sums.rows, sums.columns, whole.stride};
  }
  FactorMatrix of(const FactorMatrix& whole) const {
    const auto bytes =
        (row * whole.stride + column) * static_cast<std::int64_t>(size_of(whole.element));
    return {static_cast<char*>(whole.data) + bytes, sums.rows, sums.columns, whole.stride,
            whole.element};
  }
};

/// The scratch memory that products of no larger inner dimension take at most.
std::size_t most_amx_scratch_bytes(std::int64_t inner);

/// A matrix of the result's size that is read where blocks are finished: memory is asked for its
/// part of a block while that is multiplied.
struct AmxReads {
  const void* data = nullptr;
  std::int64_t row_bytes = 0;  ///< from row to row
  std::int64_t element_bytes = 0;

  template <class T>
  static AmxReads of(const MatrixView<T>& m) {
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
    return {m.data, m.stride * kBytes, kBytes};
  }
};

using FinishAmxBlock = void (*)(const void* context, const AmxBlock& block);
/// REQUIRES: may_use_tiles(); no side is zero.
void multiply_amx(const AmxProduct& product, Scratch& scratch, const AmxReads& reads,
                  FinishAmxBlock finish, const void* context);

/// Calls finish(block) for all blocks of the result, once each, on the workers' threads.
template <class Finish>
void multiply_amx(const AmxProduct& product, Scratch& scratch, const AmxReads& reads,
                  const Finish& finish) {
  multiply_amx(
      product, scratch, reads,
      [](const void* context, const AmxBlock& block) {
        (*static_cast<const Finish*>(context))(block);
      },
      &finish);
}

}  // namespace swarmpi::kernels::native
