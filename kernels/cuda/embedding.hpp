#pragma once
// Token plus position embedding, as in kernels/backend.hpp, with the reference's bits. All pointers
// are of device memory but those of sort_by_token(); fastest where rows are aligned to 16 bytes.

#include <cuda_runtime.h>

#include "kernels/backend.hpp"

namespace swarmpi::kernels::cuda {

/// x = token + position; the tables are dense: (V, C) and (T, C), T the context.
void embed_forward(Matrix x, const std::int32_t* tokens, const float* token_table,
                   const float* position_table, std::int64_t context, cudaStream_t stream);

/// The gradients are set. order[starts[v]] .. order[starts[v + 1] - 1] are the rows of dx whose
/// token is v, in index order, as sort_by_token() makes them of the tokens; these themselves are
/// not read.
void embed_backward(Matrix token_gradient, Matrix position_gradient, ConstMatrix dx,
                    const std::int32_t* tokens, const std::int32_t* order,
                    const std::int32_t* starts, cudaStream_t stream);

/// On the host: sorts the indices of `count` tokens below `rows` by token, equal ones by index.
/// order: (count), starts: (rows + 1).
void sort_by_token(std::int32_t* order, std::int32_t* starts, const std::int32_t* tokens,
                   std::int64_t count, std::int64_t rows);

}  // namespace swarmpi::kernels::cuda
