#include "model/make_backend.hpp"

#include "kernels/native_problem.hpp"

namespace swarmpi {
namespace {

kernels::MaxIsa max_isa(MaxIsa choice) {
  switch (choice) {
    case MaxIsa::any:
      return kernels::MaxIsa::any;
    case MaxIsa::avx2:
      return kernels::MaxIsa::avx2;
    case MaxIsa::avx512:
      return kernels::MaxIsa::avx512;
    case MaxIsa::avx512_bf16:
      return kernels::MaxIsa::avx512_bf16;
    case MaxIsa::amx:
      break;
  }
  return kernels::MaxIsa::amx;
}

}  // namespace

Result<std::unique_ptr<kernels::Backend>> make_backend(const Config& config) {
  kernels::BackendOptions options;
  options.precision = config.model.precision == Precision::bf16 ? kernels::Precision::bf16
                                                                : kernels::Precision::fp32;
  options.threads = static_cast<int>(config.compute.threads);
  options.max_isa = max_isa(config.compute.max_isa);
  options.tf32 = config.compute.tf32;
  // What computes nothing has a backend for sizes alone.
  const bool hollow = config.compute.kernels == Kernels::none;
  if (hollow || config.compute.kernels == Kernels::reference)
    return kernels::make_reference_backend(options);
  if (config.compute.kernels == Kernels::cuda) {
    if (const std::string problem = kernels::cuda_problem(); !problem.empty()) {
      return Status::bad_input("[compute] kernels = \"cuda\": " + problem);
    }
    return kernels::make_cuda_backend(options);
  }
  if (const std::string problem = kernels::native_problem(options); !problem.empty()) {
    return Status::bad_input("[compute] kernels = \"native\": " + problem);
  }
  return kernels::make_native_backend(options);
}

}  // namespace swarmpi
