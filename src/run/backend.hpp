#pragma once
// The backend that a deck asks for.

#include <memory>

#include "config/config.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {

std::unique_ptr<kernels::Backend> make_backend(const Config& config);
/// The largest shapes that training with this deck needs.
kernels::WorkShape work_shape(const Config& config);

}  // namespace swarmpi
