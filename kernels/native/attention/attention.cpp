#include "kernels/native/attention/attention.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/native/amx/tile.hpp"
#include "kernels/native/attention/head.hpp"
#include "kernels/native/attention/rows.hpp"
#include "kernels/native/attention/tiles.hpp"
#include "kernels/native/lanes.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/native/tile.hpp"

namespace swarmpi::kernels::native {

namespace {

// Whole tiles. Taller strips would make fewer passes over the gradients of keys and values, but
// leave out less above the diagonal.
constexpr std::int64_t kQueries = 32;

/// Rows of elements as products take them.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0;

  T* row(std::int64_t r) const { return data + r * stride; }
  LeftFactor<std::remove_const_t<T>> left() const {
    return {data, stride, kPerWord<std::remove_const_t<T>>};
  }
  /// Of rows that have zeros behind element `diagonal` of the first, one more of the next, ...
  LeftFactor<T> left_of_diagonal(std::int64_t diagonal) const {
    return {data, stride, kPerWord<T>, Zeros::behind_diagonal, diagonal};
  }
};

/// Rows that lie where those of `m` are.
template <class T>
Rows<T> over(const Matrix& m) {
  return {reinterpret_cast<T*>(m.data), m.stride * kPerWord<T>};
}

std::int64_t whole_tiles(std::int64_t columns) {
  return (columns + kTileColumns - 1) / kTileColumns * kTileColumns;
}

/// What one worker needs for one head: T as the products take it.
template <class T>
struct Work {
  // (T, D) each: dense, and packed; keys and values are right factors of some products, and
  // transposed of others.
  Rows<T> rows;
  RightFactor<T> keys, values, keys_transposed, values_transposed;
  Matrix dkeys, dvalues;  // sums over strips, of results that are not kept in fp32
  // Of a strip.
  Matrix scores, slopes;     // (queries, T), and over them:
  Rows<T> probability_rows;  // what the scores become, as left factor
  Rows<T> slope_rows;        // likewise, of the slopes; apart in bf16
  Rows<T> queries, dout;     // (queries, D)
  RightFactor<T> queries_packed, dout_packed;
  Matrix result;  // (queries, D), likewise

  Work(Pieces& pieces, const AttentionShape& s) {
    const std::int64_t columns = whole_tiles(s.context);
    const std::int64_t width = s.head_width;
    const auto elements = [&](std::int64_t count, std::int64_t row_elements) {
      const auto size = static_cast<std::int64_t>(sizeof(T));
      const std::int64_t stride = padded_stride(row_elements, size);
      return Rows<T>{pieces.array<T>(count * stride), stride};
    };
    rows = elements(s.context, width);
    keys = pieces.right<T>(s.context, width);
    values = pieces.right<T>(s.context, width);
    keys_transposed = pieces.right<T>(width, s.context);
    values_transposed = pieces.right<T>(width, s.context);
    dkeys = pieces.matrix(s.context, width);
    dvalues = pieces.matrix(s.context, width);
    scores = pieces.matrix(kQueries, columns);
    slopes = pieces.matrix(kQueries, columns);
    probability_rows = over<T>(scores);
    slope_rows = kPerWord<T> == 2 ? elements(kQueries, columns) : over<T>(slopes);
    queries = elements(kQueries, width);
    dout = elements(kQueries, width);
    queries_packed = pieces.right<T>(kQueries, width);
    dout_packed = pieces.right<T>(kQueries, width);
    result = pieces.matrix(kQueries, width);
  }
};

/// Some queries, and the keys that at least one of them sees: all up to its last.
struct Strip {
  std::int64_t first, count, keys;

  Strip(std::int64_t first_query, std::int64_t context)
      : first(first_query), count(std::min(kQueries, context - first)), keys(first + count) {}
};

template <class T>
void scale_row(T* to, const float* from, float factor, std::int64_t count) {
  for_each_vector(count, [=](const auto& at, const auto& put) { put(to, at(from) * factor); });
}

/// One head of one sequence.
template <class Storage>
class Head {
 public:
  using T = typename Storage::Type;

  Head(const AttentionShape& shape, const HeadFactors& factors, Work<T>& work)
      : shape_(shape),
        width_(shape.head_width),
        scale_(1.0f / std::sqrt(static_cast<float>(width_))),
        work_(work),
        q_(factors.q),
        k_(factors.k),
        v_(factors.v) {
    const Rows<const T> keys = taken(k_, 0, shape.context, work.rows);
    pack_transposed(work.keys_transposed, keys.data, keys.stride, width_, shape.context);
  }

  void forward(FactorMatrix out, float* log_sum) {
    const Rows<const T> values = taken(v_, 0, shape_.context, work_.rows);
    pack(work_.values, values.data, values.stride, shape_.context, width_);
    for (std::int64_t first = 0; first < shape_.context; first += kQueries) {
      forward_strip(Strip(first, shape_.context), out, log_sum);
    }
  }

  void backward(const HeadGradients& gradients, ConstFactor dout, ConstFactor out,
                const float* log_sum) {
    const Rows<const T> keys = taken(k_, 0, shape_.context, work_.rows);
    pack(work_.keys, keys.data, keys.stride, shape_.context, width_);
    const Rows<const T> values = taken(v_, 0, shape_.context, work_.rows);
    pack_transposed(work_.values_transposed, values.data, values.stride, width_, shape_.context);
    const Matrix dkeys = place_of(gradients.k, 0, shape_.context, work_.dkeys);
    const Matrix dvalues = place_of(gradients.v, 0, shape_.context, work_.dvalues);
    // From the last strip on, which sees all keys: it sets their gradients, the others add.
    const std::int64_t last = (shape_.context - 1) / kQueries * kQueries;
    for (std::int64_t first = last; first >= 0; first -= kQueries) {
      const Strip strip(first, shape_.context);
      slopes_of_strip(strip, dout, out, log_sum);
      gradients_of_strip(strip, gradients.q, dkeys, dvalues,
                         first == last ? Write::set : Write::add);
    }
    put(gradients.k, 0, dkeys);
    put(gradients.v, 0, dvalues);
  }

 private:
  /// Rows [first, first + count) as products take them: where they are, or copied to `room`.
  Rows<const T> taken(const ConstFactor& from, std::int64_t first, std::int64_t count,
                      const Rows<T>& room) {
    const Element kept = from.element;
    if (kept == (kPerWord<T> == 2 ? Element::bf16 : Element::fp32) &&
        !std::is_same_v<Storage, AsRoundedFloat> && width_ % kPerWord<T> == 0) {
      return {static_cast<const T*>(from.data) + first * from.stride, from.stride};
    }
    with_rows(from, [&](const auto rows) {
      for (std::int64_t r = 0; r < count; ++r) {
        convert_row<Storage>(room.row(r), rows.row(first + r), width_);
        if (width_ % kPerWord<T> != 0) room.row(r)[width_] = T(0);  // the last word's second half
      }
    });
    return {room.data, room.stride};
  }
  /// Where rows of a result are computed: where they belong if that is fp32, else in `room`.
  Matrix place_of(const FactorMatrix& result, std::int64_t first, std::int64_t count,
                  const Matrix& room) const {
    if (result.element != Element::fp32) return {room.data, count, width_, room.stride};
    return {result.matrix().row(first), count, width_, result.stride};
  }
  /// Takes rows of a result, from `first` on, to where they belong.
  void put(const FactorMatrix& to, std::int64_t first, const Matrix& from) {
    if (to.element == Element::fp32) return;
    with_rows(to, [&](const auto rows) {
      for (std::int64_t r = 0; r < from.rows; ++r) {
        store_row(rows.row(first + r), from.row(r), width_);
      }
    });
  }
  Matrix strip_of(const Matrix& m, const Strip& strip) const {
    return {m.data, strip.count, whole_tiles(strip.keys), m.stride};
  }
  /// scores (count, keys) = q k^T.
  Matrix scores_of(const Strip& strip) {
    queries_ = taken(q_, strip.first, strip.count, work_.queries);
    const Matrix scores = strip_of(work_.scores, strip);
    multiply_tiles(scores, queries_.left(), work_.keys_transposed, words_of<T>(width_), Write::set,
                   strip.first);
    return scores;
  }
  /// Clears what is behind the vectors of a row's first `seen` elements, up to the last word.
  template <class Value>
  static void clear_rest(Value* row, std::int64_t seen, std::int64_t keys) {
    const std::int64_t whole = whole_lanes(seen);
    const std::int64_t end = words_of<Value>(keys) * kPerWord<Value>;
    if (whole < end) std::fill(row + whole, row + end, Value(0));
  }
  /// The left factor that stands, transposed, where these rows were.
  static LeftFactor<T> transposed(const Matrix& rows, const Strip& strip) {
    return {reinterpret_cast<const T*>(rows.data), kPerWord<T>,
            kPerWord<T> * kPerWord<T> * rows.stride, Zeros::before_transposed_diagonal,
            strip.first};
  }

  void forward_strip(const Strip& strip, const FactorMatrix& out, float* log_sum) {
    const Matrix p = scores_of(strip);
    float sums[kQueries];
    for (std::int64_t i = 0; i < strip.count; ++i) {
      const std::int64_t seen = strip.first + i + 1;
      const float largest = largest_of(p.row(i), seen) * scale_;
      T* const row = work_.probability_rows.row(i);
      sums[i] = softmax_row<Storage>(row, p.row(i), scale_, largest, seen);
      clear_rest(row, seen, strip.keys);
      log_sum[strip.first + i] = largest;
    }
    for (std::int64_t i = 0; i < strip.count; ++i) {
      log_sum[strip.first + i] += log_of_normal(sums[i]);
    }
    const Matrix y = place_of(out, strip.first, strip.count, work_.result);
    multiply_tiles(y, work_.probability_rows.left_of_diagonal(strip.first), work_.values,
                   words_of<T>(strip.keys), Write::set);
    with_rows(out, [&](const auto rows) {
      for (std::int64_t i = 0; i < strip.count; ++i) {
        scale_row(rows.row(strip.first + i), y.row(i), 1.0f / sums[i], width_);
      }
    });
  }

  /// Leaves probabilities of a strip as the transpose of a left factor, and the scores' gradients
  /// as both.
  void slopes_of_strip(const Strip& strip, const ConstFactor& dout, const ConstFactor& out,
                       const float* log_sum) {
    const Matrix p = scores_of(strip);
    const Matrix ds = strip_of(work_.slopes, strip);
    dout_ = taken(dout, strip.first, strip.count, work_.dout);
    multiply_tiles(ds, dout_.left(), work_.values_transposed, words_of<T>(width_), Write::set,
                   strip.first);
    float along[kQueries] = {};
    products_of_rows(along, strip, dout, out);
    for (std::int64_t i = 0; i < strip.count; i += 2) {
      // An odd one's second sees nothing.
      const auto row = [&](std::int64_t r) {
        const std::int64_t t = std::min(strip.first + r, shape_.context - 1);
        const std::int64_t seen = r < strip.count ? t + 1 : 0;
        return SlopeRow{p.row(r), ds.row(r), scale_, log_sum[t], along[r], seen};
      };
      softmax_slopes_rows<Storage>(row(i), row(i + 1), work_.slope_rows.row(i),
                                   work_.slope_rows.row(i + 1));
      const std::int64_t seen = std::min(strip.first + i + 2, strip.keys);
      for (std::int64_t r = i; r < i + 2; ++r) {
        clear_rest(p.row(r), seen, strip.keys);
        clear_rest(ds.row(r), seen, strip.keys);
        if (kPerWord<T> == 2) clear_rest(work_.slope_rows.row(r), seen, strip.keys);
      }
    }
  }
  /// The strip's rows of the result times their gradients.
  void products_of_rows(float* products, const Strip& strip, const ConstFactor& dout,
                        const ConstFactor& out) {
    with_rows(dout, [&](const auto dout_rows) {
      with_rows(out, [&](const auto out_rows) {
        for (std::int64_t i = 0; i < strip.count; ++i) {
          LaneSum sum;
          sum.add_products(dout_rows.row(strip.first + i), out_rows.row(strip.first + i), width_);
          products[i] = sum.total();
        }
      });
    });
  }

  void gradients_of_strip(const Strip& strip, const FactorMatrix& dq, const Matrix& dkeys,
                          const Matrix& dvalues, Write write) {
    const std::int64_t strip_words = words_of<T>(strip.count);
    const RightFactor<T> queries{work_.queries_packed.data, strip_words};
    const RightFactor<T> dout{work_.dout_packed.data, strip_words};
    pack(queries, queries_.data, queries_.stride, strip.count, width_);
    pack(dout, dout_.data, dout_.stride, strip.count, width_);

    const Matrix y = place_of(dq, strip.first, strip.count, work_.result);
    multiply_tiles(y, work_.slope_rows.left_of_diagonal(strip.first), work_.keys,
                   words_of<T>(strip.keys), Write::set);
    put(dq, strip.first, y);
    const auto of_keys = [&](const Matrix& m) {
      return Matrix(m.data, strip.keys, width_, m.stride);
    };
    multiply_tiles(of_keys(dkeys), transposed(work_.slopes, strip), queries, strip_words, write);
    multiply_tiles(of_keys(dvalues), transposed(work_.scores, strip), dout, strip_words, write);
  }

  const AttentionShape& shape_;
  std::int64_t width_;
  float scale_;
  Work<T>& work_;
  ConstFactor q_, k_, v_;
  Rows<const T> queries_, dout_;  // of the strip at work, (count, D)
};

/// Calls body(storage) with how factors are multiplied in vectors.
template <class Body>
void with_storage(AttentionArithmetic arithmetic, const Body& body) {
  if (arithmetic == AttentionArithmetic::fp32) return body(AsFloat{});
  if (arithmetic == AttentionArithmetic::bf16_pairs) return body(AsBf16{});
  body(AsRoundedFloat{});
}

template <class T>
std::size_t worker_bytes(const AttentionShape& shape) {
  Pieces counted(nullptr);
  Work<T> unused(counted, shape);
  return counted.size_bytes();
}

/// Calls body(item, memory) for each head of each sequence, with so many bytes of memory.
template <class Body>
void for_each_head(const AttentionShape& s, Scratch& scratch, std::size_t bytes, const Body& body) {
  auto* const all =
      static_cast<char*>(scratch.take(static_cast<std::size_t>(worker_count()) * bytes));
  for_each_item(s.sequences * s.heads, [&](std::int64_t item, int worker) {
    body(item, all + static_cast<std::size_t>(worker) * bytes);
  });
}
/// Calls body(item, work) likewise.
template <class T, class Body>
void for_each_head(const AttentionShape& s, Scratch& scratch, const Body& body) {
  for_each_head(s, scratch, worker_bytes<T>(s), [&](std::int64_t item, char* memory) {
    Pieces pieces(memory);
    Work<T> work(pieces, s);
    body(item, work);
  });
}

/// The head that the worker of this one computes next; this one, if it has none.
std::int64_t next_head(std::int64_t item, const AttentionShape& s) {
  const std::int64_t next = item + worker_count();
  return next < s.sequences * s.heads ? next : item;
}

void forward_in_tiles(FactorMatrix out, float* log_sum, ConstFactor qkv, const AttentionShape& s,
                      Scratch& scratch) {
  for_each_head(s, scratch, attention_tiles_bytes(s), [&](std::int64_t item, char* memory) {
    const HeadFactors next(qkv, next_head(item, s), s);
    attention_tiles_forward(head_of(out, 0, item, s), log_sum + item * s.context, {qkv, item, s},
                            {next.q, next.k, next.v}, s, memory);
  });
}

void backward_in_tiles(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                       const float* log_sum, const AttentionShape& s, Scratch& scratch) {
  for_each_head(s, scratch, attention_tiles_bytes(s), [&](std::int64_t item, char* memory) {
    const std::int64_t after = next_head(item, s);
    const HeadFactors next(qkv, after, s);
    attention_tiles_backward(
        {dqkv, item, s}, head_of(dout, 0, item, s), {qkv, item, s}, head_of(out, 0, item, s),
        log_sum + item * s.context,
        {next.q, next.k, next.v, head_of(dout, 0, after, s), head_of(out, 0, after, s)}, s, memory);
  });
}

}  // namespace

AttentionArithmetic Attention::fastest(Precision precision, bool multiplies_bf16, bool has_amx) {
  if (precision == Precision::fp32) return AttentionArithmetic::fp32;
  if (multiplies_bf16 && has_amx && may_use_tiles()) return AttentionArithmetic::tiles;
  if (multiplies_bf16 && kBf16PairsAreFaster) return AttentionArithmetic::bf16_pairs;
  return AttentionArithmetic::rounded_fp32;
}

Need Attention::need(const AttentionShape& shape) {
  std::size_t size = 0;
  if (arithmetic_ == AttentionArithmetic::tiles) {
    size = attention_tiles_bytes(shape);
  } else {
    with_storage(arithmetic_, [&](const auto storage) {
      size = worker_bytes<typename std::decay_t<decltype(storage)>::Type>(shape);
    });
  }
  return {scratch_, static_cast<std::size_t>(worker_count()) * size};
}

void Attention::forward(FactorMatrix out, float* log_sum, ConstFactor qkv,
                        const AttentionShape& s) {
  if (arithmetic_ == AttentionArithmetic::tiles) {
    return forward_in_tiles(out, log_sum, qkv, s, scratch_);
  }
  with_storage(arithmetic_, [&](const auto storage) {
    using Storage = std::decay_t<decltype(storage)>;
    for_each_head<typename Storage::Type>(s, scratch_, [&](std::int64_t item, auto& work) {
      Head<Storage>(s, {qkv, item, s}, work)
          .forward(head_of(out, 0, item, s), log_sum + item * s.context);
    });
  });
}

void Attention::backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                         const float* log_sum, const AttentionShape& s) {
  if (arithmetic_ == AttentionArithmetic::tiles) {
    return backward_in_tiles(dqkv, dout, qkv, out, log_sum, s, scratch_);
  }
  with_storage(arithmetic_, [&](const auto storage) {
    using Storage = std::decay_t<decltype(storage)>;
    for_each_head<typename Storage::Type>(s, scratch_, [&](std::int64_t item, auto& work) {
      Head<Storage>(s, {qkv, item, s}, work)
          .backward({dqkv, item, s}, head_of(dout, 0, item, s), head_of(out, 0, item, s),
                    log_sum + item * s.context);
    });
  });
}

}  // namespace swarmpi::kernels::native
