#pragma once
// Matrix products by oneDNN. Factors are in the storage of the backend's precision: fp32 as they
// are, or rounded copies, in bf16 where oneDNN multiplies it, else in fp32 (same values, same sums
// in fp32, slower).

#include <memory>

#include "kernels/backend.hpp"
#include "kernels/native/aligned_memory.hpp"

namespace swarmpi::kernels::native {

class Bf16Products;

/// A factor of a product: rows of `stride` elements, read transposed or not; or, of right factors
/// in bf16, panels of so many columns (tile.hpp), each of whole blocks of kPanelRows rows.
struct Factor {
  const void* data = nullptr;
  std::int64_t stride = 0;
  bool is_transposed = false;
  std::int64_t panel_columns = 0;

  Factor transposed() const { return {data, stride, !is_transposed}; }
};
inline constexpr std::int64_t kPanelRows = 32;

class Products {
 public:
  explicit Products(Precision precision);
  /// With dense rows and packed weights, where bf16 is multiplied: oneDNN's kernels for AMX want
  /// both, those of other processors gain less by it than packing costs. Tests choose.
  Products(Precision precision, bool packs);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// Whether factors are rounded copies; if not, they are the matrices themselves.
  bool rounds() const { return precision_ == Precision::bf16; }
  std::int64_t element_bytes() const;
  bool packs() const { return packs_; }
  /// Elements from row to row of matrices that products read or write.
  std::int64_t stride(std::int64_t columns, Element element) const;
  /// Elements from row to row, and bytes, of a rounded copy.
  std::int64_t copy_stride(std::int64_t columns) const;
  std::size_t copy_bytes(std::int64_t rows, std::int64_t columns) const;

  /// How factors are best kept: rounded, where oneDNN multiplies bf16.
  Element element() const { return bf16_ != nullptr ? Element::bf16 : Element::fp32; }

  /// The columns of the panels that oneDNN multiplies right factors (inner, columns) from without
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

  /// c = a b, or c += a b: (rows, columns) = (rows, inner) (inner, columns).
  void multiply(Matrix c, const Factor& a, const Factor& b, std::int64_t inner, Write write);
  /// c = a b + bias, rounded to c's element; bias (columns) may be null.
  void multiply_to_factor(FactorMatrix c, const Factor& a, const Factor& b, std::int64_t inner,
                          const float* bias);

 private:
  Precision precision_;
  bool packs_;
  std::unique_ptr<Bf16Products> bf16_;  // null: fp32, or no bf16 in oneDNN on this processor
};

}  // namespace swarmpi::kernels::native
