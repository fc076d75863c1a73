#include "kernels/libraries.hpp"

#include <oneapi/dnnl/dnnl.h>
#include <Kokkos_Core.hpp>

namespace swarmpi::kernels {
namespace {

const char* threading(unsigned runtime) {
  switch (runtime) {
    case DNNL_RUNTIME_SEQ:
      return "sequential";
    case DNNL_RUNTIME_OMP:
      return "OpenMP";
    case DNNL_RUNTIME_TBB:
      return "TBB";
    default:
      return "threads of its own";
  }
}

}  // namespace

std::string native_libraries() {
  const dnnl_version_t* dnnl = dnnl_version();
  std::string text = "oneDNN " + std::to_string(dnnl->major) + "." + std::to_string(dnnl->minor) +
                     "." + std::to_string(dnnl->patch) + " (" + threading(dnnl->cpu_runtime) + ")";
  // KOKKOS_VERSION is major * 10000 + minor * 100 + patch.
  text += ", Kokkos " + std::to_string(KOKKOS_VERSION / 10000) + "." +
          std::to_string(KOKKOS_VERSION / 100 % 100) + "." + std::to_string(KOKKOS_VERSION % 100);
  return text + " (" + Kokkos::DefaultHostExecutionSpace::name() + ")";
}

}  // namespace swarmpi::kernels
