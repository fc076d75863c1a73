#include "kernels/cuda/embedding.hpp"

#include "kernels/cuda/reduce.cuh"

namespace swarmpi::kernels::cuda {

namespace {

constexpr int kThreads = 256;
/// Rows that are on their way from memory at once while others are added up.
constexpr int kRowsAtOnce = 8;

//--------------------------------------------------------------------------------------------------
// Kernels

template <int kColumns, class T>
struct Embed {
  static constexpr int kWidth = kColumns;
  static constexpr Access kAccess = kWidth > 1 ? Access::packs : Access::columns;
  Rows<T> x;
  const std::int32_t* tokens;
  Rows<const float> token_table;
  Rows<const float> position_table;
  unsigned context;

  struct Inputs {
    Pack<kWidth> token, position;
  };
  __device__ Nothing columns(std::int64_t, std::int64_t) const { return {}; }
  __device__ Inputs load(std::int64_t r, std::int64_t c, std::int64_t left) const {
    const unsigned position = static_cast<unsigned>(r) % context;
    return {cuda::load<kWidth, kAccess>(token_table.row(tokens[r]) + c, left),
            cuda::load<kWidth, kAccess>(position_table.row(position) + c, left)};
  }
  __device__ void store(std::int64_t r, std::int64_t c, std::int64_t left, const Inputs& in,
                        Nothing) const {
    cuda::store<kWidth, kAccess>(x.row(r) + c, left, in.token + in.position);
  }
};

/// Which rows of dx make up row v of a gradient: first, then on while there are any.
struct ByToken {
  const std::int32_t* order;
  const std::int32_t* starts;

  __device__ std::int64_t first(std::int64_t v) const { return starts[v]; }
  __device__ std::int64_t end(std::int64_t v) const { return starts[v + 1]; }
  __device__ std::int64_t step() const { return 1; }
  __device__ std::int64_t row(std::int64_t i) const { return order[i]; }
};
struct ByPosition {
  std::int64_t context;
  std::int64_t rows;

  __device__ std::int64_t first(std::int64_t t) const { return t; }
  __device__ std::int64_t end(std::int64_t) const { return rows; }
  __device__ std::int64_t step() const { return context; }
  __device__ std::int64_t row(std::int64_t i) const { return i; }
};

/// A pack of a gradient's row for each thread, which adds up its rows of dx in order, from +0 as
/// the reference does.
template <int kWidth, class Members>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(Rows<float> gradient, Rows<const float> dx, Members members, std::int64_t rows,
                  std::int64_t columns, unsigned column_blocks) {
  constexpr Access kAccess = kWidth > 1 ? Access::whole_packs : Access::columns;
  const unsigned row_block = blockIdx.x / column_blocks;
  const unsigned column_block = blockIdx.x - row_block * column_blocks;
  const std::int64_t v = static_cast<std::int64_t>(row_block) * blockDim.y + threadIdx.y;
  const std::int64_t c =
      (static_cast<std::int64_t>(column_block) * blockDim.x + threadIdx.x) * kWidth;
  if (v >= rows || c >= columns) return;
  const std::int64_t end = members.end(v), step = members.step();
  Pack<kWidth> sum = {};
  std::int64_t i = members.first(v);
  for (; i + (kRowsAtOnce - 1) * step < end; i += kRowsAtOnce * step) {
    Pack<kWidth> x[kRowsAtOnce];
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) {
      x[k] = load<kWidth, kAccess>(dx.row(members.row(i + k * step)) + c, kWidth);
    }
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) sum = sum + x[k];
  }
  for (; i < end; i += step) {
    sum = sum + load<kWidth, kAccess>(dx.row(members.row(i)) + c, kWidth);
  }
  store<kWidth, kAccess>(gradient.row(v) + c, kWidth, sum);
}

//--------------------------------------------------------------------------------------------------
// Launchers

template <int kWidth, class Members>
void launch_gather(Matrix gradient, ConstMatrix dx, const Members& members, cudaStream_t stream) {
  const std::int64_t packs = divided_up(gradient.columns, kWidth);
  // Few packs of a row together: others do not wait for a token that is in many places.
  unsigned across = 1;
  while (across < packs && across < 64) across *= 2;
  const unsigned down = kThreads / across;
  const unsigned column_blocks = blocks_for(packs, across);
  launch(gather_kernel<kWidth, Members>, blocks_for(gradient.rows, down) * column_blocks,
         dim3(across, down), stream, rows_of(gradient), rows_of(dx), members, gradient.rows,
         gradient.columns, column_blocks);
}

template <class Members>
void gather(Matrix gradient, ConstMatrix dx, const Members& members, cudaStream_t stream) {
  if (is_aligned(gradient) && is_aligned(dx) && gradient.columns % 4 == 0) {
    launch_gather<4>(gradient, dx, members, stream);
  } else {
    launch_gather<1>(gradient, dx, members, stream);
  }
}

}  // namespace

void embed_forward(Matrix x, const std::int32_t* tokens, const float* token_table,
                   const float* position_table, std::int64_t context, cudaStream_t stream) {
  const bool aligned =
      x.columns % 4 == 0 && is_aligned(x) && is_aligned(token_table) && is_aligned(position_table);
  launch_pointwise<Embed, float>(aligned, x.rows, x.columns, stream, rows_of(x), tokens,
                                 Rows<const float>{token_table, x.columns},
                                 Rows<const float>{position_table, x.columns},
                                 static_cast<unsigned>(context));
}

void embed_backward(Matrix token_gradient, Matrix position_gradient, ConstMatrix dx,
                    const std::int32_t* /*tokens*/, const std::int32_t* order,
                    const std::int32_t* starts, cudaStream_t stream) {
  gather(token_gradient, dx, ByToken{order, starts}, stream);
  gather(position_gradient, dx, ByPosition{position_gradient.rows, dx.rows}, stream);
}

void sort_by_token(std::int32_t* order, std::int32_t* starts, const std::int32_t* tokens,
                   std::int64_t count, std::int64_t rows) {
  std::fill_n(starts, rows + 1, 0);
  for (std::int64_t i = 0; i < count; ++i) ++starts[tokens[i] + 1];
  for (std::int64_t v = 0; v < rows; ++v) starts[v + 1] += starts[v];
  // Each start moves on to the next one's place, and back.
  for (std::int64_t i = 0; i < count; ++i) {
    order[starts[tokens[i]]++] = static_cast<std::int32_t>(i);
  }
  std::copy_backward(starts, starts + rows, starts + rows + 1);
  starts[0] = 0;
}

}  // namespace swarmpi::kernels::cuda
