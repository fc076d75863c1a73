#pragma once
// The kernels that a deck asks for.

#include <memory>

#include "config/config.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {

/// The largest shapes that any stage of this deck computes.
kernels::WorkShape work_shape(const Config& config);

/// Backend by `compute.kernels`, `compute.threads`, `compute.max_isa` and `model.precision`, with
/// its scratch memory reserved. The native one exists once in a process.
std::unique_ptr<kernels::Backend> make_backend(const Config& config);

}  // namespace swarmpi
