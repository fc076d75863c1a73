#pragma once
// For tests of the code around backends: the reference backend as a device with memory of its own
// would be.

#include <memory>

#include "kernels/backend.hpp"

namespace swarmpi::kernels {

/// The bits of the reference backend. Its memory is protected but within its own functions: a host
/// that reads or writes there dies of SIGSEGV. What operations give to the host is spoilt at once,
/// and there after finish(), rows and coded bytes when their copies have been waited for. Memory
/// must not outlive it.
std::unique_ptr<Backend> make_guarded_backend(const BackendOptions& options);

}  // namespace swarmpi::kernels
