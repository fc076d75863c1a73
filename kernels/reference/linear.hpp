#pragma once
// y = x W^T and its gradients; W is dense (N, K). Shapes and meanings as in kernels/backend.hpp.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::reference {

template <class S>
void linear_forward(MatrixView<S> y, MatrixView<const S> x, MatrixView<const S> weight,
                    const S* bias, MatrixView<const S> residual, Precision precision);

template <class S>
void linear_gelu_forward(MatrixView<S> pre, MatrixView<S> activated, MatrixView<const S> x,
                         MatrixView<const S> weight, const S* bias, Precision precision);

template <class S>
void linear_backward_input(MatrixView<S> dx, MatrixView<const S> dy, MatrixView<const S> weight,
                           Precision precision);

template <class S>
void linear_gelu_backward_input(MatrixView<S> dpre, MatrixView<const S> dy,
                                MatrixView<const S> weight, MatrixView<const S> pre,
                                Precision precision);

/// The bias gradient sums fp32 rows in index order.
template <class S>
void linear_backward_weight(MatrixView<S> weight_gradient, S* bias_gradient, Write write,
                            MatrixView<const S> dy, MatrixView<const S> x, Precision precision);

}  // namespace swarmpi::kernels::reference
