#include "kernels/native/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/native/lanes.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/native/vector_math.hpp"
#include "kernels/portable_math.hpp"

namespace swarmpi::kernels::native {

namespace {

/// Masks what is behind the first `seen` scores, up to whole lanes; returns the number of those.
std::int64_t mask_to_lanes(float* scores, std::int64_t seen) {
  const std::int64_t whole = whole_lanes(seen);
  std::fill(scores + seen, scores + whole, -__builtin_inff());
  return whole;
}

/// scores = e^(scores * scale - shift), `count` in whole lanes.
void exponentials(float* __restrict scores, float scale, float shift, std::int64_t count) {
  count = count / kLanes * kLanes;
  for (std::int64_t s = 0; s < count; ++s) {
    scores[s] = exp_or_zero(std::fma(scores[s], scale, -shift));
  }
}

/// slopes = probabilities * (slopes - along) * scale, `count` in whole lanes. What is masked has a
/// probability of zero, and a slope of zero whatever lies in the padding.
void softmax_slopes(float* __restrict slopes, const float* __restrict probabilities, float along,
                    float scale, std::int64_t count) {
  count = count / kLanes * kLanes;
  for (std::int64_t s = 0; s < count; ++s) {
    slopes[s] = probabilities[s] * (slopes[s] - along) * scale;
  }
}

void scale_row(float* __restrict y, float factor, std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) y[c] *= factor;
}

/// Head h of sequence b in a matrix of heads side by side: (T, C / H).
template <class T>
MatrixView<T> head_of(MatrixView<T> m, std::int64_t part, std::int64_t b, std::int64_t h,
                      const AttentionShape& s) {
  return {m.row(b * s.context) + (part * s.heads + h) * s.head_width, s.context, s.head_width,
          m.stride};
}

Matrix rows_of(Matrix m, std::int64_t first, std::int64_t count) {
  return {m.row(first), count, m.columns, m.stride};
}

}  // namespace

/// One head of one sequence: factors of the products, and the matrices in fp32.
struct Attention::Head {
  std::int64_t width;
  float scale;
  Factor q, k, v, dout;
  Matrix y, dq, dk, dv;
  ConstMatrix out, slope;  // the forward's result and its gradient
  float* new_log_sum;      // (T), forward
  const float* log_sum;    // (T), backward

  Head(const Products& products, const Factor& qkv, std::int64_t b, std::int64_t h,
       const AttentionShape& s)
      : width(s.head_width), scale(1.0f / std::sqrt(static_cast<float>(s.head_width))) {
    const auto part_of = [&](std::int64_t part) {
      return products.part(qkv, b * s.context, (part * s.heads + h) * s.head_width);
    };
    q = part_of(0);
    k = part_of(1);
    v = part_of(2);
  }
};

/// A worker's memory: (queries, context) each, and the factors of products that they turn into.
struct Attention::Strip {
  Matrix scores, slopes;
  Factor scores_factor, slopes_factor;
};

/// Some queries, and the keys that at least one of them sees: all up to its last.
struct Attention::Block {
  std::int64_t first, count, keys;

  Block(std::int64_t first_query, std::int64_t queries, std::int64_t context)
      : first(first_query), count(std::min(queries, context - first)), keys(first + count) {}
};

std::size_t Attention::strip_bytes(std::int64_t context) const {
  const std::int64_t floats = queries_ * padded_stride(context, sizeof(float));
  const std::size_t copy = products_.rounds() ? products_.copy_bytes(queries_, context) : 0;
  return 2 * (static_cast<std::size_t>(floats) * sizeof(float) + copy);
}

Attention::Strip Attention::strip_of(int worker, std::int64_t context) {
  const std::size_t bytes = strip_bytes(context);
  char* const all =
      static_cast<char*>(strips_.take(static_cast<std::size_t>(worker_count()) * bytes));
  const std::int64_t stride = padded_stride(context, sizeof(float));
  float* const scores = reinterpret_cast<float*>(all + static_cast<std::size_t>(worker) * bytes);
  float* const slopes = scores + queries_ * stride;
  Strip strip{{scores, queries_, context, stride},
              {slopes, queries_, context, stride},
              {scores, stride},
              {slopes, stride}};
  if (products_.rounds()) {
    char* const copies = reinterpret_cast<char*>(slopes + queries_ * stride);
    const std::int64_t copy_stride = products_.copy_stride(context);
    strip.scores_factor = {copies, copy_stride};
    strip.slopes_factor = {copies + products_.copy_bytes(queries_, context), copy_stride};
  }
  return strip;
}

std::array<Need, 3> Attention::needs(const AttentionShape& s) {
  const std::int64_t rows = s.sequences * s.context;
  const std::int64_t width = s.heads * s.head_width;
  return {Need(strips_, static_cast<std::size_t>(worker_count()) * strip_bytes(s.context)),
          products_.factor_need(rows, 3 * width, qkv_copy_),
          products_.factor_need(rows, width, dout_copy_)};
}

/// Makes the row of the factor out of what was computed in the row's first `seen` elements: rounds
/// it if need be, and clears the rest.
void Attention::finish_row(const Matrix& strip, const Factor& factor, std::int64_t row,
                           std::int64_t seen, std::int64_t keys) const {
  const std::int64_t bytes = products_.element_bytes();
  char* const to = const_cast<char*>(static_cast<const char*>(products_.part(factor, row, 0).data));
  if (products_.rounds()) products_.copy_row(to, strip.row(row), seen);
  std::memset(to + seen * bytes, 0, static_cast<std::size_t>((keys - seen) * bytes));
}

void Attention::forward_block(const Head& head, const Strip& strip, const Block& block,
                              int worker) {
  const Matrix p(strip.scores.data, block.count, block.keys, strip.scores.stride);
  const Matrix y = rows_of(head.y, block.first, block.count);
  float sums[std::max(kQueries, kQueriesBf16)];

  products_.multiply(p, products_.part(head.q, block.first, 0), head.k.transposed(), head.width,
                     Write::set, worker);
  for (std::int64_t i = 0; i < block.count; ++i) {
    const std::int64_t whole = mask_to_lanes(p.row(i), block.first + i + 1);
    const float largest = largest_of(p.row(i), whole) * head.scale;
    exponentials(p.row(i), head.scale, largest, whole);
    finish_row(p, strip.scores_factor, i, std::min(whole, block.keys), block.keys);
    LaneSum sum;
    sum.add(p.row(i), whole);
    sums[i] = sum.total();
    head.new_log_sum[block.first + i] =
        largest + static_cast<float>(portable_log(static_cast<double>(sums[i])));
  }
  products_.multiply(y, strip.scores_factor, head.v, block.keys, Write::set, worker);
  for (std::int64_t i = 0; i < block.count; ++i) scale_row(y.row(i), 1.0f / sums[i], head.width);
}

void Attention::backward_block(const Head& head, const Strip& strip, const Block& block,
                               Write write, int worker) {
  const Matrix p(strip.scores.data, block.count, block.keys, strip.scores.stride);
  const Matrix ds(strip.slopes.data, block.count, block.keys, strip.slopes.stride);
  const Factor q = products_.part(head.q, block.first, 0);
  const Factor dout = products_.part(head.dout, block.first, 0);

  products_.multiply(p, q, head.k.transposed(), head.width, Write::set, worker);
  products_.multiply(ds, dout, head.v.transposed(), head.width, Write::set, worker);
  for (std::int64_t i = 0; i < block.count; ++i) {
    const std::int64_t t = block.first + i;
    LaneSum along;
    along.add_products(head.slope.row(t), head.out.row(t), head.width);
    const std::int64_t whole = mask_to_lanes(p.row(i), t + 1);
    exponentials(p.row(i), head.scale, head.log_sum[t], whole);
    if (whole > t + 1) std::fill(ds.row(i) + t + 1, ds.row(i) + whole, 0.0f);
    softmax_slopes(ds.row(i), p.row(i), along.total(), head.scale, whole);
    finish_row(p, strip.scores_factor, i, std::min(whole, block.keys), block.keys);
    finish_row(ds, strip.slopes_factor, i, std::min(whole, block.keys), block.keys);
  }
  const Factor& p_factor = strip.scores_factor;
  const Factor& ds_factor = strip.slopes_factor;
  products_.multiply(rows_of(head.dq, block.first, block.count), ds_factor, head.k, block.keys,
                     Write::set, worker);
  products_.multiply(rows_of(head.dk, 0, block.keys), ds_factor.transposed(), q, block.count, write,
                     worker);
  products_.multiply(rows_of(head.dv, 0, block.keys), p_factor.transposed(), dout, block.count,
                     write, worker);
}

void Attention::forward(Matrix out, float* log_sum, ConstMatrix qkv, const AttentionShape& s) {
  take_all(needs(s));
  const Factor factor = products_.factor(qkv, qkv_copy_);
  for_each_item(s.sequences * s.heads, [&](std::int64_t item, int worker) {
    const std::int64_t b = item / s.heads;
    const std::int64_t h = item % s.heads;
    Head head(products_, factor, b, h, s);
    head.y = head_of(out, 0, b, h, s);
    head.new_log_sum = log_sum + item * s.context;
    const Strip strip = strip_of(worker, s.context);
    for (std::int64_t first = 0; first < s.context; first += queries_) {
      forward_block(head, strip, Block(first, queries_, s.context), worker);
    }
  });
}

void Attention::backward(Matrix dqkv, ConstMatrix dout, ConstMatrix qkv, ConstMatrix out,
                         const float* log_sum, const AttentionShape& s) {
  take_all(needs(s));
  const Factor factor = products_.factor(qkv, qkv_copy_);
  const Factor dout_factor = products_.factor(dout, dout_copy_);
  for_each_item(s.sequences * s.heads, [&](std::int64_t item, int worker) {
    const std::int64_t b = item / s.heads;
    const std::int64_t h = item % s.heads;
    Head head(products_, factor, b, h, s);
    head.dout = products_.part(dout_factor, b * s.context, h * s.head_width);
    head.slope = head_of(dout, 0, b, h, s);
    head.out = head_of(out, 0, b, h, s);
    head.dq = head_of(dqkv, 0, b, h, s);
    head.dk = head_of(dqkv, 1, b, h, s);
    head.dv = head_of(dqkv, 2, b, h, s);
    head.log_sum = log_sum + item * s.context;
    const Strip strip = strip_of(worker, s.context);
    // From the last block on, which sees all keys: it sets their gradients, the others add.
    const std::int64_t last = (s.context - 1) / queries_ * queries_;
    for (std::int64_t first = last; first >= 0; first -= queries_) {
      backward_block(head, strip, Block(first, queries_, s.context),
                     first == last ? Write::set : Write::add, worker);
    }
  });
}

}  // namespace swarmpi::kernels::native
