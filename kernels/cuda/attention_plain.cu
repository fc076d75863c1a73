// Attention without tensor cores: tiles of fp32 in shared memory, 256 threads as 16 x 16. Thread
// (ty, tx) has rows ty, ty + 16, ... of scores and results, columns tx, tx + 16, ... of scores, and
// every 16th group of four columns of results. Takes any element and any head up to 256 wide.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/bfloat16.hpp"
#include "kernels/cuda/attention.hpp"

namespace swarmpi::kernels::cuda {

namespace {

// =================================================================================================
// Kernels
// =================================================================================================

constexpr int kThreads = 256;

/// Columns [column, column + width) of a head's rows, of whatever element.
struct HeadRows {
  const void* data;
  std::int64_t stride;
  std::int64_t row, column;
  bool is_bf16;

  __device__ float at(int r, int c) const {
    const std::int64_t i = (row + r) * stride + column + c;
    return is_bf16 ? float_from_bf16(static_cast<const std::uint16_t*>(data)[i])
                   : static_cast<const float*>(data)[i];
  }
  /// REQUIRES: these are rows of a FactorMatrix.
  __device__ void put(int r, int c, float value) const {
    const std::int64_t i = (row + r) * stride + column + c;
    if (is_bf16) {
      static_cast<std::uint16_t*>(const_cast<void*>(data))[i] = bf16_from_float(value);
    } else {
      static_cast<float*>(const_cast<void*>(data))[i] = value;
    }
  }
};
struct AllRows {
  const void* data;
  std::int64_t stride;
  bool is_bf16;
};

struct Work {
  AllRows qkv, out, dout, dqkv;  ///< forward: the first two
  float* log_sum;                ///< backward: only read
  float* delta;
  int context;
  int heads;
  int head_width;
  std::int64_t items;  ///< heads of all sequences
  float scale;         ///< of scores
  bool round;          ///< factors of products, to bf16

  __device__ HeadRows head(const AllRows& rows, int part, std::int64_t item) const {
    const std::int64_t column =
        (static_cast<std::int64_t>(part) * heads + item % heads) * head_width;
    return {rows.data, rows.stride, item / heads * context, column, rows.is_bf16};
  }
  __device__ float factor(float x) const { return round ? round_to_bf16(x) : x; }
};

extern __shared__ __align__(16) float shared_floats[];

/// A block's part of one head: kTile rows against tiles of kTile others, heads at most kWidth wide.
template <int kTile, int kWidth>
struct Block {
  static constexpr int kRows = kTile / 16;     // that a thread has
  static constexpr int kGroups = kWidth / 64;  // of four columns, that a thread has
  // Four more than needed, so that the same four columns of neighbouring rows lie in other banks.
  static constexpr int kWide = kWidth + 4;
  static constexpr int kNarrow = kTile + 4;
  static constexpr int kWideTile = kTile * kWide;
  static constexpr int kNarrowTile = kTile * kNarrow;
  using Scores = float[kRows][kRows];
  using Results = float[kRows][kGroups][4];

  const Work& w;
  int ty = static_cast<int>(threadIdx.x) / 16;
  int tx = static_cast<int>(threadIdx.x) % 16;

  explicit __device__ Block(const Work& work) : w(work) {}

  /// Rows [first, first + kTile) as factors; zeros beyond the context and the head's width.
  __device__ void load(float* tile, const HeadRows& rows, int first) const {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kWidth; i += kThreads) {
      const int r = i / kWidth;
      const int c = i % kWidth;
      const bool there = first + r < w.context && c < w.head_width;
      tile[r * kWide + c] = there ? w.factor(rows.at(first + r, c)) : 0.0f;
    }
  }
  /// Likewise, of numbers that there is one of for each row.
  __device__ void load_numbers(float* to, const float* from, int first) const {
    const int r = static_cast<int>(threadIdx.x);
    if (r < kTile) to[r] = first + r < w.context ? from[first + r] : 0.0f;
  }

  /// Products of rows: left row of a thread's, right row of its columns.
  __device__ void multiply_rows(Scores& products, const float* left, const float* right) const {
#pragma unroll
    for (int a = 0; a < kRows; ++a) {
#pragma unroll
      for (int b = 0; b < kRows; ++b) products[a][b] = 0;
    }
    for (int c = 0; c < w.head_width; c += 4) {
      float4 x[kRows], y[kRows];
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
        x[a] = *reinterpret_cast<const float4*>(left + (ty + 16 * a) * kWide + c);
        y[a] = *reinterpret_cast<const float4*>(right + (tx + 16 * a) * kWide + c);
      }
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
#pragma unroll
        for (int b = 0; b < kRows; ++b) {
          float& sum = products[a][b];
          sum = fmaf(x[a].x, y[b].x, sum);
          sum = fmaf(x[a].y, y[b].y, sum);
          sum = fmaf(x[a].z, y[b].z, sum);
          sum = fmaf(x[a].w, y[b].w, sum);
        }
      }
    }
  }
  /// results += left right, of a narrow tile and a wide one.
  __device__ void add_products(Results& results, const float* left, const float* right) const {
#pragma unroll 2
    for (int s = 0; s < kTile; s += 4) {
      float4 x[kRows];
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
        x[a] = *reinterpret_cast<const float4*>(left + (ty + 16 * a) * kNarrow + s);
      }
      add_row(results, right + s * kWide, [&](int a) { return x[a].x; });
      add_row(results, right + (s + 1) * kWide, [&](int a) { return x[a].y; });
      add_row(results, right + (s + 2) * kWide, [&](int a) { return x[a].z; });
      add_row(results, right + (s + 3) * kWide, [&](int a) { return x[a].w; });
    }
  }
  /// Takes results, each times its row's factor, to where they belong.
  template <class Factor>
  __device__ void store(const HeadRows& to, int first, const Results& results,
                        const Factor& factor) const {
#pragma unroll
    for (int a = 0; a < kRows; ++a) {
      const int row = first + ty + 16 * a;
      if (row >= w.context) continue;
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          const int c = (tx + 16 * g) * 4 + v;
          if (c < w.head_width) to.put(row, c, results[a][g][v] * factor(a));
        }
      }
    }
  }

 private:
  template <class Left>
  __device__ void add_row(Results& results, const float* right, const Left& left) const {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const float4 y = *reinterpret_cast<const float4*>(right + (tx + 16 * g) * 4);
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
        float(&sums)[4] = results[a][g];
        sums[0] = fmaf(left(a), y.x, sums[0]);
        sums[1] = fmaf(left(a), y.y, sums[1]);
        sums[2] = fmaf(left(a), y.z, sums[2]);
        sums[3] = fmaf(left(a), y.w, sums[3]);
      }
    }
  }
};

// Over the 16 threads that have a row; all of them get it.
__device__ float row_max(float x) {
#pragma unroll
  for (int apart = 8; apart > 0; apart /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, apart));
  return x;
}
__device__ float row_sum(float x) {
#pragma unroll
  for (int apart = 8; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffffu, x, apart);
  return x;
}

template <int kTile, int kWidth>
__global__ void __launch_bounds__(kThreads)
    plain_forward_kernel(const Work w, int blocks_per_item) {
  using B = Block<kTile, kWidth>;
  const B block(w);
  const std::int64_t item = blockIdx.x / blocks_per_item;
  // Blocks that meet the most keys come first.
  const int rank = static_cast<int>(blockIdx.x % blocks_per_item);
  const int first = (blocks_per_item - 1 - rank) * kTile;
  float* const queries = shared_floats;
  float* const keys = queries + B::kWideTile;
  float* const values = keys + B::kWideTile;
  float* const p = values + B::kWideTile;

  typename B::Results results = {};
  float largest[B::kRows];
  float sum[B::kRows];  // of this thread's columns
#pragma unroll
  for (int a = 0; a < B::kRows; ++a) {
    largest[a] = -INFINITY;
    sum[a] = 0;
  }
  block.load(queries, w.head(w.qkv, 0, item), first);
  for (int key = 0; key <= first; key += kTile) {
    __syncthreads();
    block.load(keys, w.head(w.qkv, 1, item), key);
    block.load(values, w.head(w.qkv, 2, item), key);
    __syncthreads();
    typename B::Scores scores;
    block.multiply_rows(scores, queries, keys);
#pragma unroll
    for (int a = 0; a < B::kRows; ++a) {
      float most = largest[a];
#pragma unroll
      for (int b = 0; b < B::kRows; ++b) {
        const bool is_seen = key + block.tx + 16 * b <= first + block.ty + 16 * a;
        scores[a][b] = is_seen ? scores[a][b] * w.scale : -INFINITY;
        most = fmaxf(most, scores[a][b]);
      }
      most = row_max(most);
      const float rescale = expf(largest[a] - most);  // 0 the first time
      largest[a] = most;
      sum[a] *= rescale;
#pragma unroll
      for (int g = 0; g < B::kGroups; ++g) {
#pragma unroll
        for (int v = 0; v < 4; ++v) results[a][g][v] *= rescale;
      }
#pragma unroll
      for (int b = 0; b < B::kRows; ++b) {
        const float e = expf(scores[a][b] - most);
        sum[a] += e;
        p[(block.ty + 16 * a) * B::kNarrow + block.tx + 16 * b] = w.factor(e);
      }
    }
    __syncthreads();
    block.add_products(results, p, values);
  }
#pragma unroll
  for (int a = 0; a < B::kRows; ++a) {
    sum[a] = row_sum(sum[a]);
    const int query = first + block.ty + 16 * a;
    if (block.tx == 0 && query < w.context) {
      w.log_sum[item * w.context + query] = largest[a] + logf(sum[a]);
    }
  }
  block.store(w.head(w.out, 0, item), first, results, [&](int a) { return 1.0f / sum[a]; });
}

/// A warp for each row of each head.
__global__ void __launch_bounds__(kThreads) plain_delta_kernel(const Work w) {
  const std::int64_t pair = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  if (pair >= w.items * w.context) return;
  const std::int64_t item = pair / w.context;
  const int row = static_cast<int>(pair % w.context);
  const HeadRows dout = w.head(w.dout, 0, item);
  const HeadRows out = w.head(w.out, 0, item);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum = 0;
  for (int c = lane; c < w.head_width; c += 32) sum = fmaf(dout.at(row, c), out.at(row, c), sum);
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  if (lane == 0) w.delta[pair] = sum;
}

/// The gradients of keys and values; here keys are rows.
template <int kTile, int kWidth>
__global__ void __launch_bounds__(kThreads) plain_keys_kernel(const Work w, int blocks_per_item) {
  using B = Block<kTile, kWidth>;
  const B block(w);
  const std::int64_t item = blockIdx.x / blocks_per_item;
  const int first = static_cast<int>(blockIdx.x % blocks_per_item) * kTile;
  float* const keys = shared_floats;
  float* const values = keys + B::kWideTile;
  float* const queries = values + B::kWideTile;
  float* const dout = queries + B::kWideTile;
  float* const p = dout + B::kWideTile;
  float* const ds = p + B::kNarrowTile;
  float* const log_sum = ds + B::kNarrowTile;
  float* const delta = log_sum + kTile;

  typename B::Results dkeys = {};
  typename B::Results dvalues = {};
  block.load(keys, w.head(w.qkv, 1, item), first);
  block.load(values, w.head(w.qkv, 2, item), first);
  for (int query = first; query < w.context; query += kTile) {
    __syncthreads();
    block.load(queries, w.head(w.qkv, 0, item), query);
    block.load(dout, w.head(w.dout, 0, item), query);
    block.load_numbers(log_sum, w.log_sum + item * w.context, query);
    block.load_numbers(delta, w.delta + item * w.context, query);
    __syncthreads();
    typename B::Scores scores, slopes;
    block.multiply_rows(scores, keys, queries);
    block.multiply_rows(slopes, values, dout);
#pragma unroll
    for (int a = 0; a < B::kRows; ++a) {
#pragma unroll
      for (int b = 0; b < B::kRows; ++b) {
        const int i = block.tx + 16 * b;
        const bool is_seen = first + block.ty + 16 * a <= query + i;
        const float e = is_seen ? expf(scores[a][b] * w.scale - log_sum[i]) : 0.0f;
        const int place = (block.ty + 16 * a) * B::kNarrow + i;
        p[place] = w.factor(e);
        ds[place] = is_seen ? w.factor(e * (slopes[a][b] - delta[i])) : 0.0f;
      }
    }
    __syncthreads();
    block.add_products(dvalues, p, dout);
    block.add_products(dkeys, ds, queries);
  }
  block.store(w.head(w.dqkv, 1, item), first, dkeys, [&](int) { return w.scale; });
  block.store(w.head(w.dqkv, 2, item), first, dvalues, [&](int) { return 1.0f; });
}

template <int kTile, int kWidth>
__global__ void __launch_bounds__(kThreads)
    plain_queries_kernel(const Work w, int blocks_per_item) {
  using B = Block<kTile, kWidth>;
  const B block(w);
  const std::int64_t item = blockIdx.x / blocks_per_item;
  // Blocks that meet the most keys come first.
  const int rank = static_cast<int>(blockIdx.x % blocks_per_item);
  const int first = (blocks_per_item - 1 - rank) * kTile;
  float* const queries = shared_floats;
  float* const dout = queries + B::kWideTile;
  float* const keys = dout + B::kWideTile;
  float* const values = keys + B::kWideTile;
  float* const ds = values + B::kWideTile;

  float log_sum[B::kRows], delta[B::kRows];
#pragma unroll
  for (int a = 0; a < B::kRows; ++a) {
    const int query = min(first + block.ty + 16 * a, w.context - 1);
    log_sum[a] = w.log_sum[item * w.context + query];
    delta[a] = w.delta[item * w.context + query];
  }
  typename B::Results dqueries = {};
  block.load(queries, w.head(w.qkv, 0, item), first);
  block.load(dout, w.head(w.dout, 0, item), first);
  for (int key = 0; key <= first; key += kTile) {
    __syncthreads();
    block.load(keys, w.head(w.qkv, 1, item), key);
    block.load(values, w.head(w.qkv, 2, item), key);
    __syncthreads();
    typename B::Scores scores, slopes;
    block.multiply_rows(scores, queries, keys);
    block.multiply_rows(slopes, dout, values);
#pragma unroll
    for (int a = 0; a < B::kRows; ++a) {
#pragma unroll
      for (int b = 0; b < B::kRows; ++b) {
        const int row = block.ty + 16 * a;
        const int s = block.tx + 16 * b;
        const float e = expf(scores[a][b] * w.scale - log_sum[a]);
        const bool is_seen = key + s <= first + row;
        ds[row * B::kNarrow + s] = is_seen ? w.factor(e * (slopes[a][b] - delta[a])) : 0.0f;
      }
    }
    __syncthreads();
    block.add_products(dqueries, ds, keys);
  }
  block.store(w.head(w.dqkv, 0, item), first, dqueries, [&](int) { return w.scale; });
}

// =================================================================================================
// Launchers
// =================================================================================================

Work work_of(const AttentionShape& s, const ConstFactor& qkv) {
  Work work = {};
  work.qkv = {qkv.data, qkv.stride, qkv.element == Element::bf16};
  work.context = static_cast<int>(s.context);
  work.heads = static_cast<int>(s.heads);
  work.head_width = static_cast<int>(s.head_width);
  work.items = s.sequences * s.heads;
  work.scale = 1.0f / std::sqrt(static_cast<float>(s.head_width));
  work.round = qkv.element == Element::bf16;
  return work;
}
AllRows rows_of(const ConstFactor& m) { return {m.data, m.stride, m.element == Element::bf16}; }

/// One block for each kTile rows of each head.
void launch(void (*kernel)(Work, int), const Work& work, int tile, int floats,
            cudaStream_t stream) {
  const int blocks_per_item = (work.context + tile - 1) / tile;
  const auto blocks = static_cast<unsigned>(work.items * blocks_per_item);
  const int bytes = floats * static_cast<int>(sizeof(float));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<blocks, kThreads, bytes, stream>>>(work, blocks_per_item);
}
template <int kTile, int kWidth>
void launch_forward(const Work& work, cudaStream_t stream) {
  using B = Block<kTile, kWidth>;
  launch(plain_forward_kernel<kTile, kWidth>, work, kTile, 3 * B::kWideTile + B::kNarrowTile,
         stream);
}
template <int kTile, int kWidth>
void launch_backward(const Work& work, cudaStream_t stream) {
  using B = Block<kTile, kWidth>;
  launch(plain_keys_kernel<kTile, kWidth>, work, kTile,
         4 * B::kWideTile + 2 * B::kNarrowTile + 2 * kTile, stream);
  launch(plain_queries_kernel<kTile, kWidth>, work, kTile, 4 * B::kWideTile + B::kNarrowTile,
         stream);
}

}  // namespace

void plain_attention_forward(FactorMatrix out, float* log_sum, ConstFactor qkv,
                             const AttentionShape& s, cudaStream_t stream) {
  Work work = work_of(s, qkv);
  work.out = rows_of(out);
  work.log_sum = log_sum;
  if (s.head_width <= 64) return launch_forward<64, 64>(work, stream);
  if (s.head_width <= 128) return launch_forward<64, 128>(work, stream);
  launch_forward<32, 256>(work, stream);
}

void plain_attention_backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                              const float* log_sum, float* delta, const AttentionShape& s,
                              cudaStream_t stream) {
  Work work = work_of(s, qkv);
  work.dqkv = rows_of(dqkv);
  work.dout = rows_of(dout);
  work.out = rows_of(out);
  work.log_sum = const_cast<float*>(log_sum);
  work.delta = delta;
  const std::int64_t pairs = work.items * work.context;
  constexpr int kPairs = kThreads / 32;
  plain_delta_kernel<<<static_cast<unsigned>((pairs + kPairs - 1) / kPairs), kThreads, 0, stream>>>(
      work);
  if (s.head_width <= 64) return launch_backward<64, 64>(work, stream);
  if (s.head_width <= 128) return launch_backward<64, 128>(work, stream);
  launch_backward<32, 256>(work, stream);
}

}  // namespace swarmpi::kernels::cuda
