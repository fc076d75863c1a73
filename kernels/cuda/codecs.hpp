#pragma once
// Coded arrays on the device: the layout of kernels/codecs.hpp, the reference's bits. Meanings as
// in kernels/backend.hpp, but for `coded`, which lies on the device too. REQUIRES: it is aligned to
// 16.

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/backend.hpp"
#include "kernels/codecs.hpp"

namespace swarmpi::kernels::cuda {

void encode(std::byte* coded, ConstMatrix x, const Coding& coding, cudaStream_t stream);

void decode(Matrix x, const std::byte* coded, const Coding& coding, cudaStream_t stream);

}  // namespace swarmpi::kernels::cuda
