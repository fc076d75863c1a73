#pragma once
// Matrix products by oneDNN, or in tiles of AMX (amx/product.hpp). Factors are in the storage of
// the backend's precision: fp32 as they are, or rounded copies, in bf16 where oneDNN multiplies it,
// else in fp32 (same values, same sums in fp32, slower).

#include <memory>

#include "kernels/backend.hpp"
#include "kernels/native/aligned_memory.hpp"
#include "kernels/native/amx/product.hpp"

namespace swarmpi::kernels::native {

class Bf16Products;

class Products {
 public:
  explicit Products(Precision precision);
  /// With dense rows and packed weights, where bf16 is multiplied: kernels for AMX want both, those
  /// of other processors gain less by it than packing costs. Tests choose.
  Products(Precision precision, bool packs);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// Whether factors are rounded copies; if not, they are the matrices themselves.
  bool rounds() const { return precision_ == Precision::bf16; }
  std::int64_t element_bytes() const;
  bool packs() const { return packs_; }
  bool has_tiles() const { return has_tiles_; }
  /// Elements from row to row of matrices that products read or write.
  std::int64_t stride(std::int64_t columns, Element element) const;
  /// Elements from row to row, and bytes, of a rounded copy.
  std::int64_t copy_stride(std::int64_t columns) const;
  std::size_t copy_bytes(std::int64_t rows, std::int64_t columns) const;

  /// How factors are best kept: rounded, where oneDNN multiplies bf16.
  Element element() const { return bf16_ != nullptr ? Element::bf16 : Element::fp32; }

  /// The columns of the panels that right factors (inner, columns) are multiplied from without
  /// packing them again each time; 0 where they are not to be packed.
  std::int64_t panel_columns(std::int64_t inner, std::int64_t columns) const;

  /// `m` as a factor; a rounded copy, where one is needed, goes to `scratch`, which is not touched
  /// otherwise.
  Factor factor(ConstFactor m, Scratch& scratch) const;
  /// What factor() of such a matrix takes if it is kept as element() says.
  Need factor_need(std::int64_t rows, std::int64_t columns, Scratch& scratch) const;
  /// A copy with rows padded to copy_stride(), rounded if the precision asks for it.
  void copy(void* to, ConstMatrix m) const;
  /// Part of a factor, not transposed, from this row on.
  Factor part(const Factor& whole, std::int64_t row) const;
  /// One row of a copy.
  void copy_row(void* to, const float* row, std::int64_t columns) const;

  /// Whether such products come in blocks, which multiply_blocks() hands over.
  bool has_blocks(const Factor& b, std::int64_t inner) const {
    return multiplies_blocks(b) && inner <= kMostBlockInner;
  }
  /// finish(block) for all blocks of a b, once each, on the workers' threads, which may read
  /// `reads`: see amx/product.hpp. REQUIRES: has_blocks().
  template <class Finish>
  void multiply_blocks(std::int64_t rows, std::int64_t columns, const Factor& a, const Factor& b,
                       std::int64_t inner, const AmxReads& reads, const Finish& finish) {
    multiply_amx({rows, columns, inner, a, b}, rooms_, reads, finish);
  }
  /// What they take.
  Need blocks_need();

  /// c = a b, or c += a b: (rows, columns) = (rows, inner) (inner, columns).
  void multiply(Matrix c, const Factor& a, const Factor& b, std::int64_t inner, Write write);
  /// c = a b + bias, rounded to c's element; bias (columns) may be null.
  void multiply_to_factor(FactorMatrix c, const Factor& a, const Factor& b, std::int64_t inner,
                          const float* bias);

 private:
  /// Beyond, a block is the sum of several products: panels would fill the second cache.
  static constexpr std::int64_t kMostBlockInner = 4096;

  bool multiplies_blocks(const Factor& b) const {
    return has_tiles_ && (b.panel_columns == 0 || b.panel_columns == kAmxBlock);
  }
  void multiply_in_blocks(Matrix c, const AmxProduct& product, Write write);

  Precision precision_;
  bool packs_;
  bool has_tiles_;
  Scratch rooms_;                       // of tiles
  std::unique_ptr<Bf16Products> bf16_;  // null: fp32, or no bf16 in oneDNN on this processor
};

}  // namespace swarmpi::kernels::native
