#pragma once
// The kernels that a deck asks for.

#include <memory>

#include "config/config.hpp"
#include "core/status.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {

/// Backend by `compute.kernels`, `compute.threads`, `compute.max_isa` and `model.precision`; bad
/// input where these kernels cannot work in this process. Takes little memory: who makes passes
/// reserves scratch for them. The native one exists once in a process.
Result<std::unique_ptr<kernels::Backend>> make_backend(const Config& config);

}  // namespace swarmpi
