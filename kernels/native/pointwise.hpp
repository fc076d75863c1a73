#pragma once
// What stands between products: one pass over rows, everything fused that shares it.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::native {

/// y += bias; nothing if bias is null.
void add_bias(Matrix y, const float* bias);
/// y = residual + bias; bias may be null, residual may be y.
void set_residual(Matrix y, ConstMatrix residual, const float* bias);
/// y += bias + residual; bias may be null.
void add_residual(Matrix y, ConstMatrix residual, const float* bias);
/// pre += bias; activated = gelu(pre). bias may be null.
void bias_gelu(Matrix pre, FactorMatrix activated, const float* bias);
/// dpre = slopes * gelu'(pre); dpre may be `slopes`.
void scale_by_gelu_slope(FactorMatrix dpre, ConstMatrix slopes, ConstMatrix pre);

}  // namespace swarmpi::kernels::native
