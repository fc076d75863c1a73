#pragma once
// Embedding, see backend.hpp. The same bits as the reference: additions in index order of rows.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::native {

void embed_forward(Matrix x, const std::int32_t* tokens, const float* token_table,
                   const float* position_table, std::int64_t context);
void embed_backward(Matrix token_gradient, Matrix position_gradient, ConstMatrix dx,
                    const std::int32_t* tokens);

}  // namespace swarmpi::kernels::native
