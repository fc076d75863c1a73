#include "kernels/native/attention/tiles.hpp"

#include <algorithm>
#include <cmath>

#include "core/prefetch.hpp"
#include "kernels/native/amx/tile.hpp"
#include "kernels/native/lanes.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/native/stored.hpp"
#include "kernels/native/vector_math.hpp"

namespace swarmpi::kernels::native {

namespace {

constexpr float kLog2E = 0x1.715476p+0f;
// Blocks of keys at a time on the way back: the more, the fewer passes over the sums of dq; what is
// kept of their queries must fit into the second cache.
constexpr std::int64_t kStripBlocks = 4;

struct Blocks {
  std::int64_t context, width;

  explicit Blocks(const AttentionShape& s)
      : context(blocks_of(s.context, kBlockSide)), width(blocks_of(s.head_width, kBlockSide)) {}
};

Panels panels(Pieces& pieces, std::int64_t count, std::int64_t inner_blocks) {
  return {pieces.array<std::uint16_t>(count * inner_blocks * kBlockElements), inner_blocks};
}

/// Rows [first, ...) of a result, as many as it has of a block.
void put_rows(const FactorMatrix& to, std::int64_t first, const Matrix& from) {
  const std::int64_t rows = std::min(kBlockSide, to.rows - first);
  with_rows(to, [&](const auto stored) {
    for (std::int64_t r = 0; r < rows; ++r) {
      store_row(stored.row(first + r), from.row(r), to.columns);
    }
  });
}

/// The lanes of `v`, columns from `column` on, that are not before column `row`; those before it
/// become zero.
Vector masked_before(Vector v, std::int64_t column, std::int64_t row) {
  const VectorBits lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const std::int64_t hidden = std::max<std::int64_t>(row - column, 0);
  return lane >= static_cast<std::uint32_t>(hidden) ? v : Vector{};
}
/// `v` up to column `row`, `value` behind it.
Vector masked_behind(Vector v, std::int64_t column, std::int64_t row, float value) {
  return masked_from(v, std::max<std::int64_t>(row + 1 - column, 0), value);
}

/// Rows that will be needed, on their way into the second cache beside what is computed: the pieces
/// of rows that are one head's are too short for the processor to guess the next.
class RowsAhead {
 public:
  /// Brings all within the steps of a head: one for each block of queries and keys.
  RowsAhead(const NextRows& matrices, const Blocks& blocks) : matrices_(matrices) {
    const std::int64_t steps = blocks.context * (blocks.context + 1) / 2;
    rows_ = matrices.begin()->rows;
    rows_a_step_ = blocks_of(rows_, steps);
  }

  void step() {
    const std::int64_t end = std::min(rows_, next_ + rows_a_step_);
    for (; next_ < end; ++next_) {
      for (const ConstFactor& m : matrices_) fetch_row(m);
    }
  }

 private:
  void fetch_row(const ConstFactor& m) const {
    const auto element_bytes = static_cast<std::int64_t>(size_of(m.element));
    const char* const row = static_cast<const char*>(m.data) + next_ * m.stride * element_bytes;
    fetch_lines<Cache::second>(row, 0, m.columns * element_bytes);
  }

  const NextRows& matrices_;
  std::int64_t rows_, rows_a_step_, next_ = 0;
};

class ForwardHead {
 public:
  ForwardHead(Pieces& pieces, const AttentionShape& s)
      : blocks_(s),
        scale_(1.0f / std::sqrt(static_cast<float>(s.head_width))),
        left_(panels(pieces, 1, blocks_.width)),
        keys_(panels(pieces, blocks_.context, blocks_.width)),
        values_(panels(pieces, blocks_.width, blocks_.context)),
        probabilities_(panels(pieces, 1, blocks_.context)),
        scores_(pieces.matrix(kBlockSide, blocks_.context * kBlockSide)),
        result_(pieces.matrix(kBlockSide, blocks_.width * kBlockSide)) {}

  void run(const FactorMatrix& out, float* log_sum, const HeadFactors& head, const NextRows& next) {
    RowsAhead ahead(next, blocks_);
    for (std::int64_t b = 0; b < blocks_.context; ++b) pack_keys(b, head);
    for (std::int64_t b = 0; b < blocks_.context; ++b) {
      pack_left(left_.data, head.q, b * kBlockSide);
      scores_of(b, ahead);
      probabilities_of(b);
      result_of(b, out, log_sum);
    }
  }

 private:
  void pack_keys(std::int64_t b, const HeadFactors& head) {
    pack_left(left_.data, head.k, b * kBlockSide);
    for (std::int64_t d = 0; d < blocks_.width; ++d) {
      transpose_block(keys_.block(b, d), left_.block(0, d));
    }
    pack_left(left_.data, head.v, b * kBlockSide);
    for (std::int64_t d = 0; d < blocks_.width; ++d) {
      right_of_left(values_.block(d, b), left_.block(0, d));
    }
  }
  /// Scores of a block of queries, and the largest of each lane, while they are in a near cache.
  void scores_of(std::int64_t b, RowsAhead& ahead) {
    std::fill(std::begin(largest_), std::end(largest_), Vector{} - __builtin_inff());
    for (std::int64_t k = 0; k <= b; ++k) {
      ahead.step();
      float* const scores = scores_.data + k * kBlockSide;
      multiply_blocks(scores, scores_.stride, left_.data, keys_.block(k, 0), blocks_.width,
                      Write::set);
      if (k == b) hide_later_keys(scores);
      for (std::int64_t r = 0; r < kBlockSide; ++r) {
        const float* const row = scores + r * scores_.stride;
        largest_[r] = larger(load(row), largest_[r]);
        largest_[r] = larger(load(row + kVectorLanes), largest_[r]);
      }
    }
  }
  void hide_later_keys(float* scores) const {
    for (std::int64_t r = 0; r < kBlockSide; ++r) {
      for (std::int64_t c = 0; c < kBlockSide; c += kVectorLanes) {
        float* const place = scores + r * scores_.stride + c;
        store_vector(place, masked_behind(load(place), c, r, -__builtin_inff()));
      }
    }
  }
  void probabilities_of(std::int64_t b) {
    for (std::int64_t r = 0; r < kBlockSide; ++r) {
      const float largest = largest_lane(largest_[r]);
      largest_of_row_[r] = largest * scale_;
      sums_[r] = exponentials_of_row(r, b + 1, largest);
    }
  }
  /// e^((scores - largest) * scale), rounded, as blocks of a left factor; returns their sum.
  float exponentials_of_row(std::int64_t r, std::int64_t count, float largest) const {
    const Vector factor = Vector{} + scale_ * kLog2E;
    const Vector shift = Vector{} - largest * (scale_ * kLog2E);
    const float* const scores = scores_.row(r);
    std::uint16_t* const line = probabilities_.data + r * kLineElements;
    Vector sum = {};
    for (std::int64_t k = 0; k < count; ++k) {
      const float* const from = scores + k * kBlockSide;
      const Vector a = power_of_two(fused(load(from), factor, shift));
      const Vector b = power_of_two(fused(load(from + kVectorLanes), factor, shift));
      sum += a + b;
      store_line(line + k * kBlockElements, bf16_line(a, b));
    }
    return sum_of_lanes(sum);
  }
  void result_of(std::int64_t b, const FactorMatrix& out, float* log_sum) {
    for (std::int64_t d = 0; d < blocks_.width; ++d) {
      multiply_blocks(result_.data + d * kBlockSide, result_.stride, probabilities_.data,
                      values_.block(d, 0), b + 1, Write::set);
    }
    const std::int64_t first = b * kBlockSide;
    const std::int64_t rows = std::min(kBlockSide, out.rows - first);
    for (std::int64_t r = 0; r < rows; ++r) {
      log_sum[first + r] = largest_of_row_[r] + log_of_normal(sums_[r]);
    }
    with_rows(out, [&](const auto stored) {
      for (std::int64_t r = 0; r < rows; ++r) {
        auto* const to = stored.row(first + r);
        const float* const from = result_.row(r);
        const float factor = 1.0f / sums_[r];
        for_each_vector(out.columns,
                        [=](const auto& at, const auto& put) { put(to, at(from) * factor); });
      }
    });
  }

  Blocks blocks_;
  float scale_;
  Panels left_;           // of one block of rows
  Panels keys_, values_;  // right factors: k^T (D, T), v (T, D)
  Panels probabilities_;  // left factor (32, T)
  Matrix scores_;         // (32, T)
  Matrix result_;         // (32, D)
  Vector largest_[kBlockSide];
  float largest_of_row_[kBlockSide] = {};
  float sums_[kBlockSide] = {};
};

/// On the way back everything of scores is transposed, keys by queries: so p^T and ds^T are left
/// factors of the gradients of values and keys as they come, and ds^T is a right factor of dq^T.
class BackwardHead {
 public:
  BackwardHead(Pieces& pieces, const AttentionShape& s)
      : blocks_(s),
        scale_(1.0f / std::sqrt(static_cast<float>(s.head_width))),
        left_(panels(pieces, 1, blocks_.width)),
        right_(panels(pieces, 1, 1)),
        queries_(panels(pieces, blocks_.width, blocks_.context)),
        queries_transposed_(panels(pieces, blocks_.context, blocks_.width)),
        dout_(panels(pieces, blocks_.width, blocks_.context)),
        dout_transposed_(panels(pieces, blocks_.context, blocks_.width)),
        keys_(panels(pieces, kStripBlocks, blocks_.width)),
        keys_transposed_(panels(pieces, blocks_.width, kStripBlocks)),
        values_(panels(pieces, kStripBlocks, blocks_.width)),
        probabilities_(panels(pieces, kStripBlocks, blocks_.context)),
        slopes_(panels(pieces, kStripBlocks, blocks_.context)),
        slopes_right_(panels(pieces, blocks_.context, kStripBlocks)),
        shifts_(pieces.array<float>(blocks_.context * kBlockSide)),
        along_(pieces.array<float>(blocks_.context * kBlockSide)),
        scores_{pieces.array<float>(kBlockElements), pieces.array<float>(kBlockElements)},
        products_{pieces.array<float>(kBlockElements), pieces.array<float>(kBlockElements)},
        dqueries_(pieces.array<float>(blocks_.context * blocks_.width * kBlockElements)),
        result_(pieces.matrix(kBlockSide, blocks_.width * kBlockSide)) {}

  void run(const HeadGradients& gradients, const ConstFactor& dout, const HeadFactors& head,
           const ConstFactor& out, const float* log_sum, const NextRows& next) {
    RowsAhead ahead(next, blocks_);
    for (std::int64_t b = 0; b < blocks_.context; ++b) {
      pack_rows(b, head.q, queries_, queries_transposed_);
      pack_rows(b, dout, dout_, dout_transposed_);
    }
    terms_of_queries(dout, out, log_sum);
    for (std::int64_t first = 0; first < blocks_.context; first += kStripBlocks) {
      const std::int64_t count = std::min(kStripBlocks, blocks_.context - first);
      for (std::int64_t i = 0; i < count; ++i) block_of_keys(first + i, i, gradients, head, ahead);
      add_query_gradients(first, count);
    }
    for (std::int64_t b = 0; b < blocks_.context; ++b) put_query_gradients(b, gradients.q);
  }

 private:
  /// A block of rows as right factors: as they are, and transposed.
  void pack_rows(std::int64_t b, const ConstFactor& from, const Panels& rows,
                 const Panels& transposed) {
    pack_left(left_.data, from, b * kBlockSide);
    for (std::int64_t d = 0; d < blocks_.width; ++d) {
      right_of_left(rows.block(d, b), left_.block(0, d));
      transpose_block(transposed.block(b, d), left_.block(0, d));
    }
  }
  /// What each query's exponents and slopes lack. Behind the last query: zeros.
  void terms_of_queries(const ConstFactor& dout, const ConstFactor& out, const float* log_sum) {
    with_rows(dout, [&](const auto dout_rows) {
      with_rows(out, [&](const auto out_rows) {
        for (std::int64_t t = 0; t < out.rows; ++t) {
          LaneSum sum;
          sum.add_products(dout_rows.row(t), out_rows.row(t), out.columns);
          along_[t] = -sum.total() * scale_;
          shifts_[t] = -log_sum[t] * kLog2E;
        }
      });
    });
    std::fill(along_ + out.rows, along_ + blocks_.context * kBlockSide, 0.0f);
    std::fill(shifts_ + out.rows, shifts_ + blocks_.context * kBlockSide, 0.0f);
  }
  /// Block `b` of keys, the `place`th of its strip: its gradients, and its slopes for those of
  /// queries.
  void block_of_keys(std::int64_t b, std::int64_t place, const HeadGradients& gradients,
                     const HeadFactors& head, RowsAhead& ahead) {
    pack_left(values_.block(place, 0), head.v, b * kBlockSide);
    pack_left(keys_.block(place, 0), head.k, b * kBlockSide);
    for (std::int64_t d = 0; d < blocks_.width; ++d) {
      right_of_left(right_.data, keys_.block(place, d));
      transpose_block(keys_transposed_.block(d, place), right_.data);
    }
    slopes_of_block(b, place, ahead);
    put_gradients(b, gradients.k, slopes_.block(place, b), queries_);
    put_gradients(b, gradients.v, probabilities_.block(place, b), dout_);
  }
  /// The products for the next block of queries come before the exponentials of this one: the
  /// processor multiplies tiles and vectors at the same time.
  void slopes_of_block(std::int64_t b, std::int64_t place, RowsAhead& ahead) {
    products_of_block(b, place);
    for (std::int64_t q = b; q < blocks_.context; ++q) {
      ahead.step();
      if (q + 1 < blocks_.context) products_of_block(q + 1, place);
      if (q == b) {
        softmax_slopes<true>(place, q);
      } else {
        softmax_slopes<false>(place, q);
      }
    }
  }
  void products_of_block(std::int64_t q, std::int64_t place) {
    multiply_blocks(scores_[q % 2], kBlockSide, keys_.block(place, 0),
                    queries_transposed_.block(q, 0), blocks_.width, Write::set);
    multiply_blocks(products_[q % 2], kBlockSide, values_.block(place, 0),
                    dout_transposed_.block(q, 0), blocks_.width, Write::set);
  }

  /// p = e^(score * scale - log_sum), ds = p * (product - along) * scale of 16 queries and a key.
  struct Slopes {
    Vector p, ds;
  };
  struct Queries {
    Vector scale, log2_scale;  // the scale of scores, and the same for powers of two
    Vector shifts, along;

    Slopes slopes(const float* score, const float* product) const {
      const Vector p = power_of_two(fused(load(score), log2_scale, shifts));
      return {p, p * fused(load(product), scale, along)};
    }
  };
  Queries queries_at(std::int64_t first) const {
    return {Vector{} + scale_, Vector{} + scale_ * kLog2E, load(shifts_ + first),
            load(along_ + first)};
  }
  template <bool kOnDiagonal>
  void softmax_slopes(std::int64_t place, std::int64_t q) {
    std::uint16_t* const probabilities = probabilities_.block(place, q);
    std::uint16_t* const slopes = slopes_.block(place, q);
    std::uint16_t* const slopes_right = slopes_right_.block(q, place);
    const float* const scores = scores_[q % 2];
    const float* const products = products_[q % 2];
    const Queries first = queries_at(q * kBlockSide);
    const Queries second = queries_at(q * kBlockSide + kVectorLanes);
    const auto line = [=](std::int64_t row) {
      const std::int64_t at = row * kLineElements;
      Slopes a = first.slopes(scores + at, products + at);
      Slopes b = second.slopes(scores + at + kVectorLanes, products + at + kVectorLanes);
      if (kOnDiagonal) {
        a = {masked_before(a.p, 0, row), masked_before(a.ds, 0, row)};
        b = {masked_before(b.p, kVectorLanes, row), masked_before(b.ds, kVectorLanes, row)};
      }
      store_line(probabilities + at, bf16_line(a.p, b.p));
      const VectorLine ds = bf16_line(a.ds, b.ds);
      store_line(slopes + at, ds);
      return ds;
    };
    for (std::int64_t pair = 0; pair < kBlockSide / 2; ++pair) {
      const VectorLine even = line(2 * pair);
      put_right_pair(slopes_right, pair, even, line(2 * pair + 1));
    }
  }
  /// A block of rows of keys' or values' gradients: all queries from block `b` on see them.
  void put_gradients(std::int64_t b, const FactorMatrix& to, const std::uint16_t* left,
                     const Panels& right) {
    for (std::int64_t d = 0; d < blocks_.width; ++d) {
      multiply_blocks(result_.data + d * kBlockSide, result_.stride, left, right.block(d, b),
                      blocks_.context - b, Write::set);
    }
    put_rows(to, b * kBlockSide, result_);
  }
  float* dqueries(std::int64_t q, std::int64_t d) const {
    return dqueries_ + (q * blocks_.width + d) * kBlockElements;
  }
  /// dq^T += k^T ds^T of the strip's keys. The first strip sees all queries.
  void add_query_gradients(std::int64_t first, std::int64_t count) {
    for (std::int64_t q = first; q < blocks_.context; ++q) {
      const std::int64_t seen = std::min(count, q - first + 1);
      for (std::int64_t d = 0; d < blocks_.width; ++d) {
        multiply_blocks(dqueries(q, d), kBlockSide, keys_transposed_.block(d, 0),
                        slopes_right_.block(q, 0), seen, first == 0 ? Write::set : Write::add);
      }
    }
  }
  void put_query_gradients(std::int64_t b, const FactorMatrix& to) {
    for (std::int64_t d = 0; d < blocks_.width; ++d) {
      transpose_block(result_.data + d * kBlockSide, result_.stride, dqueries(b, d), kBlockSide);
    }
    put_rows(to, b * kBlockSide, result_);
  }

  Blocks blocks_;
  float scale_;
  Panels left_, right_;                  // of one block of rows, and one block
  Panels queries_, queries_transposed_;  // right factors: q (T, D), q^T (D, T)
  Panels dout_, dout_transposed_;        // likewise
  // Of a strip of keys, left factors: k (keys, D), k^T (D, keys), v, p^T and ds^T (keys, T); and
  // ds^T as right factor.
  Panels keys_, keys_transposed_, values_, probabilities_, slopes_, slopes_right_;
  float *shifts_, *along_;           // by query: -log_sum / ln(2), -along * scale
  float *scores_[2], *products_[2];  // of blocks by turns: k q^T, v dout^T
  float* dqueries_;                  // dq^T in blocks
  Matrix result_;                    // (32, D)
};

template <class Head>
std::size_t bytes_of(const AttentionShape& shape) {
  Pieces counted(nullptr);
  const Head unused(counted, shape);
  return counted.size_bytes();
}

}  // namespace

std::size_t attention_tiles_bytes(const AttentionShape& shape) {
  return std::max(bytes_of<ForwardHead>(shape), bytes_of<BackwardHead>(shape));
}

void attention_tiles_forward(const FactorMatrix& out, float* log_sum, const HeadFactors& head,
                             const NextRows& next, const AttentionShape& shape, char* memory) {
  const TilesInUse tiles;
  Pieces pieces(memory);
  ForwardHead(pieces, shape).run(out, log_sum, head, next);
}

void attention_tiles_backward(const HeadGradients& gradients, const ConstFactor& dout,
                              const HeadFactors& head, const ConstFactor& out, const float* log_sum,
                              const NextRows& next, const AttentionShape& shape, char* memory) {
  const TilesInUse tiles;
  Pieces pieces(memory);
  BackwardHead(pieces, shape).run(gradients, dout, head, out, log_sum, next);
}

}  // namespace swarmpi::kernels::native
