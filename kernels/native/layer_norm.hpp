#pragma once
// LayerNorm over rows, see backend.hpp.

#include "kernels/native/aligned_memory.hpp"

namespace swarmpi::kernels::native {

void layer_norm_forward(FactorMatrix y, float* mean, float* rstd, ConstMatrix x,
                        const float* weight, const float* bias);
void layer_norm_backward(Matrix dx, FactorMatrix dx_factor, float* weight_gradient,
                         float* bias_gradient, Write write, ConstMatrix dy, ConstMatrix x,
                         const float* mean, const float* rstd, const float* weight,
                         Scratch& scratch);

}  // namespace swarmpi::kernels::native
