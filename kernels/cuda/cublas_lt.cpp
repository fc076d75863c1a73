#include "kernels/cuda/cublas_lt.hpp"

#include <dlfcn.h>

#include <initializer_list>

#include "core/check.hpp"

namespace swarmpi::kernels::cuda {
namespace {

void* open_library() {
  // The header's version: others may lay out their structures otherwise.
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  for (const char* const folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"}) {
    if (void* const library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return library;
    }
  }
  return nullptr;
}

CublasLt load() {
  CublasLt lt;
  void* const library = open_library();
  if (library == nullptr) {
    const char* const reason = dlerror();
    lt.problem = "cuBLASLt cannot be loaded: " + std::string(reason ? reason : "not found") +
                 "; put its folder on LD_LIBRARY_PATH";
    return lt;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) lt.problem = std::string("cuBLASLt has no ") + name;
  };
  find(lt.create, "cublasLtCreate");
  find(lt.destroy, "cublasLtDestroy");
  find(lt.version, "cublasLtGetVersion");
  find(lt.desc_create, "cublasLtMatmulDescCreate");
  find(lt.desc_set, "cublasLtMatmulDescSetAttribute");
  find(lt.desc_destroy, "cublasLtMatmulDescDestroy");
  find(lt.layout_create, "cublasLtMatrixLayoutCreate");
  find(lt.layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(lt.preference_create, "cublasLtMatmulPreferenceCreate");
  find(lt.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(lt.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(lt.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(lt.matmul, "cublasLtMatmul");
  return lt;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt lt = load();
  return lt;
}

void check(cublasStatus_t status, const char* what) {
  SWARMPI_CHECK(status == CUBLAS_STATUS_SUCCESS,
                std::string("cuBLASLt failed (") + what + "): status " + std::to_string(status));
}

}  // namespace swarmpi::kernels::cuda
