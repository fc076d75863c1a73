#include "kernels/reference/layer_norm.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/block_sum.hpp"

namespace swarmpi::kernels::reference {

template <class S>
void layer_norm_forward(MatrixView<S> y, S* mean, S* rstd, MatrixView<const S> x, const S* weight,
                        const S* bias) {
  const std::int64_t width = x.columns;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const S* in = x.row(r);
    const S average =
        sum_lanes<S>(width, [&](std::int64_t c) { return in[c]; }) / static_cast<S>(width);
    const S squares = sum_lanes<S>(width, [&](std::int64_t c) {
      const S centered = in[c] - average;
      return centered * centered;
    });
    const S variance = squares / static_cast<S>(width);
    const S scale = S(1) / std::sqrt(variance + static_cast<S>(kLayerNormEpsilon));
    for (std::int64_t c = 0; c < width; ++c) {
      y.row(r)[c] = (in[c] - average) * scale * weight[c] + bias[c];
    }
    mean[r] = average;
    rstd[r] = scale;
  }
}

template <class S>
void layer_norm_backward(MatrixView<S> dx, S* weight_gradient, S* bias_gradient, Write write,
                         MatrixView<const S> dy, MatrixView<const S> x, const S* mean,
                         const S* rstd, const S* weight) {
  const std::int64_t width = x.columns;
  if (write == Write::set) {
    std::fill_n(weight_gradient, width, S(0));
    std::fill_n(bias_gradient, width, S(0));
  }
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const S* out = dy.row(r);
    const auto normed = [&](std::int64_t c) { return (x.row(r)[c] - mean[r]) * rstd[r]; };
    const auto through = [&](std::int64_t c) { return out[c] * weight[c]; };
    const S along_mean = sum_lanes<S>(width, through) / static_cast<S>(width);
    const S along_normed =
        sum_lanes<S>(width, [&](std::int64_t c) { return through(c) * normed(c); }) /
        static_cast<S>(width);
    for (std::int64_t c = 0; c < width; ++c) {
      dx.row(r)[c] += rstd[r] * (through(c) - along_mean - normed(c) * along_normed);
      weight_gradient[c] += out[c] * normed(c);
      bias_gradient[c] += out[c];
    }
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): S is a type
#define SWARMPI_INSTANTIATE(S)                                                           \
  template void layer_norm_forward(MatrixView<S>, S*, S*, MatrixView<const S>, const S*, \
                                   const S*);                                            \
  template void layer_norm_backward(MatrixView<S>, S*, S*, Write, MatrixView<const S>,   \
                                    MatrixView<const S>, const S*, const S*, const S*);
// NOLINTEND(bugprone-macro-parentheses)
SWARMPI_INSTANTIATE(float)
SWARMPI_INSTANTIATE(double)
#undef SWARMPI_INSTANTIATE

}  // namespace swarmpi::kernels::reference
