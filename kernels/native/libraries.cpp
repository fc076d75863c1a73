#include "kernels/libraries.hpp"

#include <dnnl.h>

#include <Kokkos_Core.hpp>

namespace swarmpi::kernels {

std::string native_libraries() {
  const dnnl_version_t* const dnnl = dnnl_version();
  const auto part = [](int number) { return std::to_string(number); };
  const std::string runtime = dnnl->cpu_runtime == DNNL_RUNTIME_OMP   ? "OpenMP"
                              : dnnl->cpu_runtime == DNNL_RUNTIME_SEQ ? "sequential"
                                                                      : "other threads";
  return "oneDNN " + part(dnnl->major) + "." + part(dnnl->minor) + "." + part(dnnl->patch) + " (" +
         runtime + "), Kokkos " + part(KOKKOS_VERSION / 10000) + "." +
         part(KOKKOS_VERSION / 100 % 100) + "." + part(KOKKOS_VERSION % 100) + " (" +
         Kokkos::DefaultHostExecutionSpace::name() + ")";
}

}  // namespace swarmpi::kernels
