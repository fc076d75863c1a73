#pragma once
// The output layer with its loss, 64 rows at a time: -log softmax(x W^T)[target], summed over rows
// in index order, in double. Shapes and meanings as in kernels/backend.hpp.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::reference {

/// Elements of scratch that both need.
std::int64_t head_scratch(std::int64_t vocabulary);

template <class S>
double head_loss(MatrixView<const S> x, MatrixView<const S> weight, const std::int32_t* targets,
                 Precision precision, S* scratch);

template <class S>
double head_loss_backward(MatrixView<S> dx, MatrixView<S> weight_gradient, MatrixView<const S> x,
                          MatrixView<const S> weight, const std::int32_t* targets,
                          Precision precision, S* scratch);

}  // namespace swarmpi::kernels::reference
