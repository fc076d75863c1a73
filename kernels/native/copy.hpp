#pragma once
// Moving and clearing memory with all workers.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::native {

/// Copies the elements of a matrix of the same shape.
void copy(Matrix to, ConstMatrix from);
/// The same on the calling thread alone, past the caches: for what is large and not read again
/// soon. Other threads may read it after fence_streams().
void stream(Matrix to, ConstMatrix from);
/// One of both, for a part of a matrix of so many elements.
void put(Matrix to, ConstMatrix from, std::int64_t count);
/// The same as copy(), rounded where `to` is in bf16.
void copy_factor(FactorMatrix to, ConstMatrix from);
void zero(void* data, std::size_t size_bytes);

}  // namespace swarmpi::kernels::native
