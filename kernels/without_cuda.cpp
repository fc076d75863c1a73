// In place of kernels/cuda where the program is built without a CUDA compiler.
#ifndef SWARMPI_HAS_CUDA

#include "core/check.hpp"
#include "kernels/backend.hpp"

namespace swarmpi::kernels {

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions&) {
  SWARMPI_CHECK(false, cuda_problem());
}

std::string cuda_problem() {
  return "this program was built without CUDA: build it where nvcc is found (on PATH, or in "
         "/usr/local/cuda)";
}

std::string cuda_description() { return {}; }

int ranks_on_cuda_device() { return 1; }

int cuda_devices() { return 0; }

}  // namespace swarmpi::kernels

#endif
