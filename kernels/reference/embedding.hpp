#pragma once
// Token plus position embedding. Shapes and meanings as in kernels/backend.hpp.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::reference {

template <class S>
void embed_forward(MatrixView<S> x, const std::int32_t* tokens, const S* token_table,
                   const S* position_table, std::int64_t context);

template <class S>
void embed_backward(MatrixView<S> token_gradient, MatrixView<S> position_gradient,
                    MatrixView<const S> dx, const std::int32_t* tokens);

}  // namespace swarmpi::kernels::reference
