#pragma once
// oneDNN's products of bf16 factors with sums in fp32: one primitive for each shape, made when the
// shape is first seen.

#include <memory>

#include "kernels/native/product.hpp"

namespace swarmpi::kernels::native {

struct ProductShape {
  std::int64_t rows, columns, inner;
  bool a_transposed, b_transposed;
  std::int64_t a_stride, b_stride, c_stride;
  std::int64_t b_panel_columns;
  Write write;
  bool rounds_result = false;  ///< c is in bf16
  bool has_bias = false;       ///< (columns) is added to each row

  ProductShape(std::int64_t m, std::int64_t n, std::int64_t k, const Factor& a, const Factor& b,
               std::int64_t stride, Write w)
      : rows(m),
        columns(n),
        inner(k),
        a_transposed(a.is_transposed),
        b_transposed(b.is_transposed),
        a_stride(a.stride),
        b_stride(b.stride),
        c_stride(stride),
        b_panel_columns(b.panel_columns),
        write(w) {}
  auto operator<=>(const ProductShape&) const = default;  // NOLINT(modernize-use-nullptr)
};

class Bf16Products {
 public:
  /// Null where oneDNN has no fast product of bf16 on this processor.
  static std::unique_ptr<Bf16Products> make();
  virtual ~Bf16Products() = default;

  virtual void multiply(const ProductShape& shape, void* c, const void* a, const void* b,
                        const float* bias) = 0;
  /// Whether oneDNN may use AMX in this process.
  static bool has_amx();
  /// What oneDNN chooses for dense rows: see Products::panel_columns(). The same for any number of
  /// threads.
  virtual std::int64_t panel_columns(std::int64_t inner, std::int64_t columns) = 0;
};

}  // namespace swarmpi::kernels::native
