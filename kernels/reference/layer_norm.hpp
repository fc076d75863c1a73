#pragma once
// LayerNorm (Ba et al., 2016) over rows. Sums over a row in 16 lanes, over rows in index order.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::reference {

inline constexpr double kLayerNormEpsilon = 1e-5;

template <class S>
void layer_norm_forward(MatrixView<S> y, S* mean, S* rstd, MatrixView<const S> x, const S* weight,
                        const S* bias);

template <class S>
void layer_norm_backward(MatrixView<S> dx, S* weight_gradient, S* bias_gradient, Write write,
                         MatrixView<const S> dy, MatrixView<const S> x, const S* mean,
                         const S* rstd, const S* weight);

}  // namespace swarmpi::kernels::reference
