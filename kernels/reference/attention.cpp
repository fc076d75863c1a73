#include "kernels/reference/attention.hpp"

#include <cmath>

#include "kernels/block_sum.hpp"
#include "kernels/portable_math.hpp"
#include "kernels/reference/product.hpp"

namespace swarmpi::kernels::reference {

namespace {

constexpr std::int64_t kQueries = 64;

/// Head h of sequence b in the given part (q, k or v; a plain matrix is all part 0): (T, C / H).
template <class S>
MatrixView<S> head_of(MatrixView<S> matrix, std::int64_t part, std::int64_t b, std::int64_t h,
                      const AttentionShape& s) {
  S* const first = matrix.row(b * s.context) + (part * s.heads + h) * s.head_width;
  return {first, s.context, s.head_width, matrix.stride};
}

/// The queries of a block, and the keys that at least one of them sees: all up to its last.
struct Block {
  std::int64_t first;
  std::int64_t count;
  std::int64_t keys() const { return first + count; }
};

template <class Visit>
void for_each_head_and_block(const AttentionShape& s, const Visit& visit) {
  for (std::int64_t b = 0; b < s.sequences; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t t = 0; t < s.context; t += kQueries) {
        visit(b, h, Block{t, std::min(kQueries, s.context - t)});
      }
    }
  }
}

template <class S>
S exponential(S x) {
  return static_cast<S>(portable_exp(static_cast<double>(x)));
}

/// scores (queries, keys) = q k^T / sqrt(head width).
template <class S>
void scaled_scores(MatrixView<S> scores, MatrixView<const S> q, MatrixView<const S> k,
                   const Block& block, S scale, Precision precision) {
  product<S>(block.count, block.keys(), q.columns, factor(q).from_row(block.first),
             factor(k).transposed(), precision,
             [&](std::int64_t i, std::int64_t s, S sum) { scores.row(i)[s] = sum * scale; });
}

/// Turns the scores of query t into probabilities, zeros behind t; returns the logarithm of their
/// sum.
template <class S>
S softmax_up_to(S* scores, std::int64_t t, std::int64_t keys) {
  const S largest = *std::max_element(scores, scores + t + 1);
  for (std::int64_t s = 0; s <= t; ++s) scores[s] = exponential(scores[s] - largest);
  const S sum = sum_lanes<S>(t + 1, [&](std::int64_t s) { return scores[s]; });
  for (std::int64_t s = 0; s <= t; ++s) scores[s] /= sum;
  std::fill(scores + t + 1, scores + keys, S(0));
  return largest + static_cast<S>(portable_log(static_cast<double>(sum)));
}

template <class S>
S score_scale(const AttentionShape& shape) {
  return S(1) / std::sqrt(static_cast<S>(shape.head_width));
}

}  // namespace

std::int64_t attention_scratch(std::int64_t context) { return 2 * kQueries * context; }

template <class S>
void attention_forward(MatrixView<S> out, S* log_sum, MatrixView<const S> qkv,
                       const AttentionShape& shape, Precision precision, S* scratch) {
  const S scale = score_scale<S>(shape);
  for_each_head_and_block(shape, [&](std::int64_t b, std::int64_t h, const Block& block) {
    const MatrixView<const S> q = head_of(qkv, 0, b, h, shape);
    const MatrixView<const S> k = head_of(qkv, 1, b, h, shape);
    const MatrixView<const S> v = head_of(qkv, 2, b, h, shape);
    const MatrixView<S> y = head_of(out, 0, b, h, shape);
    const MatrixView<S> p(scratch, block.count, block.keys());
    S* const sums = log_sum + (b * shape.heads + h) * shape.context + block.first;

    scaled_scores(p, q, k, block, scale, precision);
    for (std::int64_t i = 0; i < block.count; ++i) {
      sums[i] = softmax_up_to(p.row(i), block.first + i, block.keys());
    }
    product<S>(block.count, v.columns, block.keys(), {p.data, p.stride, 1}, factor(v), precision,
               [&](std::int64_t i, std::int64_t c, S sum) { y.row(block.first + i)[c] = sum; });
  });
}

template <class S>
void attention_backward(MatrixView<S> dqkv, MatrixView<const S> dout, MatrixView<const S> qkv,
                        MatrixView<const S> out, const S* log_sum, const AttentionShape& shape,
                        Precision precision, S* scratch) {
  const S scale = score_scale<S>(shape);
  for_each_head_and_block(shape, [&](std::int64_t b, std::int64_t h, const Block& block) {
    const MatrixView<const S> q = head_of(qkv, 0, b, h, shape);
    const MatrixView<const S> k = head_of(qkv, 1, b, h, shape);
    const MatrixView<const S> v = head_of(qkv, 2, b, h, shape);
    const MatrixView<const S> y = head_of(out, 0, b, h, shape);
    const MatrixView<const S> dy = head_of(dout, 0, b, h, shape);
    const MatrixView<S> dq = head_of(dqkv, 0, b, h, shape);
    const MatrixView<S> dk = head_of(dqkv, 1, b, h, shape);
    const MatrixView<S> dv = head_of(dqkv, 2, b, h, shape);
    const MatrixView<S> p(scratch, block.count, block.keys());
    const MatrixView<S> ds(scratch + kQueries * shape.context, block.count, block.keys());
    const S* const sums = log_sum + (b * shape.heads + h) * shape.context + block.first;

    scaled_scores(p, q, k, block, scale, precision);
    product<S>(block.count, block.keys(), v.columns, factor(dy).from_row(block.first),
               factor(v).transposed(), precision,
               [&](std::int64_t i, std::int64_t s, S sum) { ds.row(i)[s] = sum; });
    for (std::int64_t i = 0; i < block.count; ++i) {
      const std::int64_t t = block.first + i;
      const S along =
          sum_lanes<S>(y.columns, [&](std::int64_t c) { return dy.row(t)[c] * y.row(t)[c]; });
      for (std::int64_t s = 0; s < block.keys(); ++s) {
        p.row(i)[s] = s <= t ? exponential(p.row(i)[s] - sums[i]) : S(0);
        ds.row(i)[s] = s <= t ? p.row(i)[s] * (ds.row(i)[s] - along) : S(0);
      }
    }
    const auto set_or_add = [&](S& element, std::int64_t s, S sum) {
      element = s < block.first ? element + sum : sum;  // later blocks see all keys of earlier ones
    };
    const Factor<S> p_factor{p.data, p.stride, 1};
    const Factor<S> ds_factor{ds.data, ds.stride, 1};
    product<S>(
        block.count, q.columns, block.keys(), ds_factor, factor(k), precision,
        [&](std::int64_t i, std::int64_t c, S sum) { dq.row(block.first + i)[c] = sum * scale; });
    product<S>(
        block.keys(), k.columns, block.count, ds_factor.transposed(),
        factor(q).from_row(block.first), precision,
        [&](std::int64_t s, std::int64_t c, S sum) { set_or_add(dk.row(s)[c], s, sum * scale); });
    product<S>(block.keys(), v.columns, block.count, p_factor.transposed(),
               factor(dy).from_row(block.first), precision,
               [&](std::int64_t s, std::int64_t c, S sum) { set_or_add(dv.row(s)[c], s, sum); });
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): S is a type
#define SWARMPI_INSTANTIATE(S)                                                                   \
  template void attention_forward(MatrixView<S>, S*, MatrixView<const S>, const AttentionShape&, \
                                  Precision, S*);                                                \
  template void attention_backward(MatrixView<S>, MatrixView<const S>, MatrixView<const S>,      \
                                   MatrixView<const S>, const S*, const AttentionShape&,         \
                                   Precision, S*);
// NOLINTEND(bugprone-macro-parentheses)
SWARMPI_INSTANTIATE(float)
SWARMPI_INSTANTIATE(double)
#undef SWARMPI_INSTANTIATE

}  // namespace swarmpi::kernels::reference
