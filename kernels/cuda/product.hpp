#pragma once
// Matrix products by cuBLASLt. The algorithm of a product is a function of its shape, strides,
// types and of the device and the library: chosen once, by the library's first proposal among those
// that add up in an order of their own. Every operand counts as aligned as its stride alone
// promises, so that bits do not depend on where a matrix lies.

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <compare>
#include <cstdint>
#include <map>

#include "kernels/backend.hpp"
#include "kernels/cuda/device.hpp"

namespace swarmpi::kernels::cuda {

/// A factor as it is multiplied: (rows, columns), or transposed.
struct Operand {
  ConstFactor view;
  bool is_transposed = false;

  Operand transposed() const { return {view, !is_transposed}; }
};

/// What is added to a product, beside the factors: all may be empty.
struct Addends {
  const float* bias = nullptr;  // (columns of the product)
  ConstMatrix residual;         // of the product's shape; may be the product itself
};

class Products {
 public:
  /// `tf32`: products of fp32 round their factors to 10 bits of mantissa.
  Products(Device& device, bool tf32);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// result (M, N) = left (M, K) right (K, N) + addends. Both factors have the same element.
  void multiply(FactorMatrix result, Operand left, Operand right, const Addends& addends = {});
  /// The same with a bias alone, if the library can add it to such a product; false: nothing is
  /// done.
  [[nodiscard]] bool multiply_with_bias(FactorMatrix result, Operand left, Operand right,
                                        const float* bias);

  static constexpr std::size_t kWorkspaceBytes = std::size_t(64) << 20;
  std::size_t library_version() const;

 private:
  /// All that chooses an algorithm.
  struct Shape {
    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t left_stride = 0, right_stride = 0, residual_stride = 0, result_stride = 0;
    bool left_transposed = false, right_transposed = false;
    bool has_bias = false, has_residual = false;
    Element factors = Element::fp32, result = Element::fp32;
    auto operator<=>(const Shape&) const = default;
  };
  /// A product that was set up.
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t left = nullptr, right = nullptr, residual = nullptr, result = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
    bool is_possible = false;
  };
  static Shape shape_of(const FactorMatrix& result, const Operand& left, const Operand& right,
                        const Addends& addends);
  Plan& plan_of(const Shape& shape);
  Plan make_plan(const Shape& shape);
  void choose(Plan& plan, const Shape& shape);
  void run(Plan& plan, const FactorMatrix& result, const Operand& left, const Operand& right,
           const Addends& addends);

  Device& device_;
  bool tf32_;
  cublasLtHandle_t handle_ = nullptr;
  DeviceMemory workspace_;
  std::map<Shape, Plan> plans_;
};

}  // namespace swarmpi::kernels::cuda
