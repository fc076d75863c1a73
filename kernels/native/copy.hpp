#pragma once
// Moving and clearing memory with all workers.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::native {

/// Copies the elements of a matrix of the same shape.
void copy(Matrix to, ConstMatrix from);
/// The same, rounded where `to` is in bf16.
void copy_factor(FactorMatrix to, ConstMatrix from);
void zero(void* data, std::size_t size_bytes);

}  // namespace swarmpi::kernels::native
