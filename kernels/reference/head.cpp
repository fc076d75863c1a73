#include "kernels/reference/head.hpp"

#include <algorithm>
#include <limits>

#include "kernels/block_sum.hpp"
#include "kernels/portable_math.hpp"
#include "kernels/reference/linear.hpp"

namespace swarmpi::kernels::reference {

namespace {

constexpr std::int64_t kRows = 64;

/// softmax(logit) = exp(logit - largest) / sum, in double.
struct Softmax {
  double largest;
  double sum;
};

template <class S>
Softmax softmax_of(const S* logits, std::int64_t count) {
  const double largest = static_cast<double>(*std::max_element(logits, logits + count));
  const double sum = sum_lanes<double>(count, [&](std::int64_t v) {
    return portable_exp(static_cast<double>(logits[v]) - largest);
  });
  return {largest, sum};
}

template <class S>
double loss_of(const Softmax& softmax, S target_logit) {
  return portable_log(softmax.sum) + (softmax.largest - static_cast<double>(target_logit));
}

/// All NaNs are one: their sign and payload depend on compiler and processor, and losses are
/// compared by bits.
double canonical(double loss) {
  return loss == loss ? loss : std::numeric_limits<double>::quiet_NaN();
}

/// Rows first .. first + count - 1.
template <class S>
MatrixView<S> rows_of(MatrixView<S> m, std::int64_t first, std::int64_t count) {
  return {m.row(first), count, m.columns, m.stride};
}

}  // namespace

std::int64_t head_scratch(std::int64_t vocabulary) { return kRows * vocabulary; }

template <class S>
double head_loss(MatrixView<const S> x, MatrixView<const S> weight, const std::int32_t* targets,
                 Precision precision, S* scratch) {
  const std::int64_t vocabulary = weight.rows;
  double loss = 0;
  for (std::int64_t first = 0; first < x.rows; first += kRows) {
    const std::int64_t count = std::min(kRows, x.rows - first);
    const MatrixView<S> logits(scratch, count, vocabulary);
    linear_forward<S>(logits, rows_of(x, first, count), weight, nullptr, {}, precision);
    for (std::int64_t i = 0; i < count; ++i) {
      const S* row = logits.row(i);
      const std::int32_t target = targets[first + i];
      if (target != kNoTarget) loss += loss_of(softmax_of(row, vocabulary), row[target]);
    }
  }
  return canonical(loss);
}

template <class S>
double head_loss_backward(MatrixView<S> dx, MatrixView<S> weight_gradient, MatrixView<const S> x,
                          MatrixView<const S> weight, const std::int32_t* targets,
                          Precision precision, S* scratch) {
  const std::int64_t vocabulary = weight.rows;
  double loss = 0;
  for (std::int64_t first = 0; first < x.rows; first += kRows) {
    const std::int64_t count = std::min(kRows, x.rows - first);
    const MatrixView<S> logits(scratch, count, vocabulary);  // then their gradients
    const MatrixView<const S> inputs = rows_of(x, first, count);
    linear_forward<S>(logits, inputs, weight, nullptr, {}, precision);
    for (std::int64_t i = 0; i < count; ++i) {
      S* row = logits.row(i);
      const std::int32_t target = targets[first + i];
      const Softmax softmax = softmax_of(row, vocabulary);
      loss += loss_of(softmax, row[target]);
      for (std::int64_t v = 0; v < vocabulary; ++v) {
        const double probability =
            portable_exp(static_cast<double>(row[v]) - softmax.largest) / softmax.sum;
        row[v] = static_cast<S>(v == target ? probability - 1.0 : probability);
      }
    }
    linear_backward_input<S>(rows_of(dx, first, count), logits, weight, precision);
    linear_backward_weight<S>(weight_gradient, nullptr, first == 0 ? Write::set : Write::add,
                              logits, inputs, precision);
  }
  return canonical(loss);
}

// NOLINTBEGIN(bugprone-macro-parentheses): S is a type
#define SWARMPI_INSTANTIATE(S)                                                             \
  template double head_loss(MatrixView<const S>, MatrixView<const S>, const std::int32_t*, \
                            Precision, S*);                                                \
  template double head_loss_backward(MatrixView<S>, MatrixView<S>, MatrixView<const S>,    \
                                     MatrixView<const S>, const std::int32_t*, Precision, S*);
// NOLINTEND(bugprone-macro-parentheses)
SWARMPI_INSTANTIATE(float)
SWARMPI_INSTANTIATE(double)
#undef SWARMPI_INSTANTIATE

}  // namespace swarmpi::kernels::reference
