#include "kernels/reference/linear.hpp"

#include "kernels/reference/gelu.hpp"
#include "kernels/reference/product.hpp"

namespace swarmpi::kernels::reference {

template <class S>
void linear_forward(MatrixView<S> y, MatrixView<const S> x, MatrixView<const S> weight,
                    const S* bias, MatrixView<const S> residual, Precision precision) {
  product<S>(y.rows, y.columns, x.columns, factor(x), factor(weight).transposed(), precision,
             [&](std::int64_t r, std::int64_t n, S sum) {
               if (bias != nullptr) sum += bias[n];
               if (!residual.empty()) sum += residual.row(r)[n];
               y.row(r)[n] = sum;
             });
}

template <class S>
void linear_gelu_forward(MatrixView<S> pre, MatrixView<S> activated, MatrixView<const S> x,
                         MatrixView<const S> weight, const S* bias, Precision precision) {
  linear_forward<S>(pre, x, weight, bias, {}, precision);
  for (std::int64_t r = 0; r < pre.rows; ++r) {
    for (std::int64_t n = 0; n < pre.columns; ++n) {
      activated.row(r)[n] = static_cast<S>(gelu(pre.row(r)[n]));
    }
  }
}

template <class S>
void linear_backward_input(MatrixView<S> dx, MatrixView<const S> dy, MatrixView<const S> weight,
                           Precision precision) {
  product<S>(dx.rows, dx.columns, dy.columns, factor(dy), factor(weight), precision,
             [&](std::int64_t r, std::int64_t k, S sum) { dx.row(r)[k] = sum; });
}

template <class S>
void linear_gelu_backward_input(MatrixView<S> dpre, MatrixView<const S> dy,
                                MatrixView<const S> weight, MatrixView<const S> pre,
                                Precision precision) {
  product<S>(dpre.rows, dpre.columns, dy.columns, factor(dy), factor(weight), precision,
             [&](std::int64_t r, std::int64_t k, S sum) {
               dpre.row(r)[k] = sum * static_cast<S>(gelu_slope(pre.row(r)[k]));
             });
}

template <class S>
void linear_backward_weight(MatrixView<S> weight_gradient, S* bias_gradient, Write write,
                            MatrixView<const S> dy, MatrixView<const S> x, Precision precision) {
  const bool add = write == Write::add;
  product<S>(weight_gradient.rows, weight_gradient.columns, dy.rows, factor(dy).transposed(),
             factor(x), precision, [&](std::int64_t n, std::int64_t k, S sum) {
               S& gradient = weight_gradient.row(n)[k];
               gradient = add ? gradient + sum : sum;
             });
  if (bias_gradient == nullptr) return;
  if (!add) std::fill_n(bias_gradient, dy.columns, S(0));
  for (std::int64_t r = 0; r < dy.rows; ++r) {
    for (std::int64_t n = 0; n < dy.columns; ++n) bias_gradient[n] += dy.row(r)[n];
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): S is a type
#define SWARMPI_INSTANTIATE(S)                                                                    \
  template void linear_forward(MatrixView<S>, MatrixView<const S>, MatrixView<const S>, const S*, \
                               MatrixView<const S>, Precision);                                   \
  template void linear_gelu_forward(MatrixView<S>, MatrixView<S>, MatrixView<const S>,            \
                                    MatrixView<const S>, const S*, Precision);                    \
  template void linear_backward_input(MatrixView<S>, MatrixView<const S>, MatrixView<const S>,    \
                                      Precision);                                                 \
  template void linear_gelu_backward_input(MatrixView<S>, MatrixView<const S>,                    \
                                           MatrixView<const S>, MatrixView<const S>, Precision);  \
  template void linear_backward_weight(MatrixView<S>, S*, Write, MatrixView<const S>,             \
                                       MatrixView<const S>, Precision);
// NOLINTEND(bugprone-macro-parentheses)
SWARMPI_INSTANTIATE(float)
SWARMPI_INSTANTIATE(double)
#undef SWARMPI_INSTANTIATE

}  // namespace swarmpi::kernels::reference
