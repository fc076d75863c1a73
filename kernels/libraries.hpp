#pragma once
// Which libraries the native kernels are linked with.

#include <string>

namespace swarmpi::kernels {

/// E.g. "oneDNN 2.6.3 (OpenMP), Kokkos 3.4.1 (Serial)".
std::string native_libraries();

}  // namespace swarmpi::kernels
