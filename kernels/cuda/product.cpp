#include "kernels/cuda/product.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "kernels/cuda/cublas_lt.hpp"

namespace swarmpi::kernels::cuda {
namespace {

cudaDataType_t type_of(Element element) {
  return element == Element::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// What a stride promises of where rows begin; memory itself is taken in larger units.
std::uint32_t alignment_of(std::int64_t stride, Element element) {
  const auto bytes = static_cast<std::uint64_t>(stride) * size_of(element);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes & -bytes, 16));
}

// The library knows columns that lie one after another: what is a row here. So it is asked for the
// transposed product, right^T left^T, whose factors change places.
cublasLtMatrixLayout_t layout(std::int64_t rows, std::int64_t columns, std::int64_t stride,
                              Element element) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublas_lt().layout_create(&made, type_of(element), static_cast<std::uint64_t>(columns),
                                  static_cast<std::uint64_t>(rows), stride),
        "a matrix's layout");
  return made;
}

template <class Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check(cublas_lt().desc_set(operation, attribute, &value, sizeof value), "a product's attribute");
}

template <class Value>
void prefer(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
            Value value) {
  check(cublas_lt().preference_set(preference, attribute, &value, sizeof value),
        "a product's preference");
}

std::int64_t rows_of(const Operand& o) { return o.is_transposed ? o.view.columns : o.view.rows; }
std::int64_t columns_of(const Operand& o) { return o.is_transposed ? o.view.rows : o.view.columns; }

}  // namespace

Products::Products(Device& device, bool tf32)
    : device_(device), tf32_(tf32), workspace_(device.index(), kWorkspaceBytes) {
  SWARMPI_CHECK(cublas_lt().problem.empty(), cublas_lt().problem);
  check(cublas_lt().create(&handle_), "its beginning");
}

Products::~Products() {
  const CublasLt& lt = cublas_lt();
  for (auto& [shape, plan] : plans_) {
    for (const cublasLtMatrixLayout_t layout :
         {plan.left, plan.right, plan.residual, plan.result}) {
      lt.layout_destroy(layout);
    }
    lt.desc_destroy(plan.operation);
  }
  lt.destroy(handle_);
}

std::size_t Products::library_version() const { return cublas_lt().version(); }

Products::Shape Products::shape_of(const FactorMatrix& result, const Operand& left,
                                   const Operand& right, const Addends& addends) {
  const ConstMatrix& residual = addends.residual;
  const Shape shape{.m = rows_of(left),
                    .n = columns_of(right),
                    .k = columns_of(left),
                    .left_stride = left.view.stride,
                    .right_stride = right.view.stride,
                    .residual_stride = residual.empty() ? result.stride : residual.stride,
                    .result_stride = result.stride,
                    .left_transposed = left.is_transposed,
                    .right_transposed = right.is_transposed,
                    .has_bias = addends.bias != nullptr,
                    .has_residual = !residual.empty(),
                    .factors = left.view.element,
                    .result = result.element};
  SWARMPI_CHECK(shape.k == rows_of(right) && shape.m == result.rows && shape.n == result.columns &&
                    left.view.element == right.view.element,
                "factors that fit each other and the product");
  return shape;
}

void Products::multiply(FactorMatrix result, Operand left, Operand right, const Addends& addends) {
  const Shape shape = shape_of(result, left, right, addends);
  Plan& plan = plan_of(shape);
  SWARMPI_CHECK(plan.is_possible, "cuBLASLt knows no algorithm for a product of (" +
                                      std::to_string(shape.m) + ", " + std::to_string(shape.k) +
                                      ") with (" + std::to_string(shape.k) + ", " +
                                      std::to_string(shape.n) + ")");
  run(plan, result, left, right, addends);
}

bool Products::multiply_with_bias(FactorMatrix result, Operand left, Operand right,
                                  const float* bias) {
  const Addends addends{bias, {}};
  Plan& plan = plan_of(shape_of(result, left, right, addends));
  if (plan.is_possible) run(plan, result, left, right, addends);
  return plan.is_possible;
}

void Products::run(Plan& plan, const FactorMatrix& result, const Operand& left,
                   const Operand& right, const Addends& addends) {
  if (addends.bias != nullptr) {
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, addends.bias);
  }
  const float alpha = 1;
  const float beta = addends.residual.empty() ? 0 : 1;
  const void* const added =
      addends.residual.empty() ? static_cast<const void*>(result.data) : addends.residual.data;
  check(cublas_lt().matmul(handle_, plan.operation, &alpha, right.view.data, plan.right,
                           left.view.data, plan.left, &beta, added, plan.residual, result.data,
                           plan.result, &plan.algorithm, workspace_.data(), kWorkspaceBytes,
                           device_.compute()),
        "a product");
}

Products::Plan& Products::plan_of(const Shape& shape) {
  const auto found = plans_.find(shape);
  if (found != plans_.end()) return found->second;
  return plans_.emplace(shape, make_plan(shape)).first->second;
}

Products::Plan Products::make_plan(const Shape& s) {
  device_.select();
  Plan plan;
  const cublasComputeType_t compute =
      s.factors == Element::fp32 && tf32_ ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(cublas_lt().desc_create(&plan.operation, compute, CUDA_R_32F), "a product");
  const auto transposition = [](bool is_transposed) {
    return is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, transposition(s.right_transposed));
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, transposition(s.left_transposed));
  if (s.has_bias) {
    set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
  }
  const auto factor = [&](std::int64_t rows, std::int64_t columns, std::int64_t stride,
                          bool is_transposed) {
    return is_transposed ? layout(columns, rows, stride, s.factors)
                         : layout(rows, columns, stride, s.factors);
  };
  plan.left = factor(s.m, s.k, s.left_stride, s.left_transposed);
  plan.right = factor(s.k, s.n, s.right_stride, s.right_transposed);
  plan.residual = layout(s.m, s.n, s.residual_stride, s.has_residual ? Element::fp32 : s.result);
  plan.result = layout(s.m, s.n, s.result_stride, s.result);
  choose(plan, s);
  return plan;
}

void Products::choose(Plan& plan, const Shape& s) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublas_lt().preference_create(&preference), "a preference");
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(kWorkspaceBytes));
  // Parts of a sum that meet in the result itself come in any order.
  prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
         alignment_of(s.right_stride, s.factors));
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
         alignment_of(s.left_stride, s.factors));
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
         alignment_of(s.residual_stride, s.has_residual ? Element::fp32 : s.result));
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
         alignment_of(s.result_stride, s.result));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublas_lt().heuristic(handle_, plan.operation, plan.right, plan.left, plan.residual,
                            plan.result, preference, 1, &found, &count);
  cublas_lt().preference_destroy(preference);
  const bool refused =
      status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  if (!refused) check(status, "choosing an algorithm");
  plan.algorithm = found.algo;
  plan.is_possible = status == CUBLAS_STATUS_SUCCESS && count == 1;
}

}  // namespace swarmpi::kernels::cuda
