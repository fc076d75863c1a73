#pragma once
// cuBLASLt, loaded when the first GPU is used: the same program runs where there is none.

#include <cublasLt.h>

#include <string>

namespace swarmpi::kernels::cuda {

/// The functions of the library that products use.
struct CublasLt {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  std::string problem;  ///< why it cannot be used; empty: it can
};

/// Loads it at the first call, from where the loader finds it or from CUDA's usual folders.
const CublasLt& cublas_lt();

/// Ends the process if a call failed.
void check(cublasStatus_t status, const char* what);

}  // namespace swarmpi::kernels::cuda
