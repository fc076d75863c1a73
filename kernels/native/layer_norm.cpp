#include "kernels/native/layer_norm.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/native/column_sums.hpp"
#include "kernels/native/lanes.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/native/stored.hpp"

namespace swarmpi::kernels::native {

namespace {

constexpr float kEpsilon = 1e-5f;

template <class T>
void normalise_row(T* y, const float* x, float mean, float rstd, const float* weight,
                   const float* bias, std::int64_t count) {
  for_each_vector(count, [=](const auto& at, const auto& put) {
    put(y, fused((at(x) - mean) * rstd, at(weight), at(bias)));
  });
}

/// Sums of the weight's and the bias's gradient; leaves dy * weight and the normalised row behind.
void through_weight(float* __restrict weight_sum, float* __restrict bias_sum,
                    float* __restrict slope, float* __restrict normal, const float* __restrict dy,
                    const float* __restrict x, float mean, float rstd,
                    const float* __restrict weight, std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) {
    const float n = (x[c] - mean) * rstd;
    weight_sum[c] = std::fma(dy[c], n, weight_sum[c]);
    bias_sum[c] += dy[c];
    normal[c] = n;
    slope[c] = dy[c] * weight[c];
  }
}

void through_norm(float* __restrict dx, const float* __restrict slope,
                  const float* __restrict normal, float rstd, float mean_slope, float mean_along,
                  std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) {
    dx[c] = std::fma(rstd, std::fma(-normal[c], mean_along, slope[c] - mean_slope), dx[c]);
  }
}

}  // namespace

void layer_norm_forward(FactorMatrix y, float* mean, float* rstd, ConstMatrix x,
                        const float* weight, const float* bias) {
  const std::int64_t width = x.columns;
  const auto count = static_cast<float>(width);
  with_rows(y, [&](const auto y_rows) {
    for_each_block(x.rows, kSumRows, [&](std::int64_t, std::int64_t first, std::int64_t end) {
      for (std::int64_t r = first; r < end; ++r) {
        LaneSum sum;
        sum.add(x.row(r), width);
        mean[r] = sum.total() / count;
        LaneSum squares;
        squares.add_squares_about(mean[r], x.row(r), width);
        rstd[r] = 1.0f / std::sqrt(squares.total() / count + kEpsilon);
        normalise_row(y_rows.row(r), x.row(r), mean[r], rstd[r], weight, bias, width);
      }
    });
  });
}

void layer_norm_backward(Matrix dx, FactorMatrix dx_factor, float* weight_gradient,
                         float* bias_gradient, Write write, ConstMatrix dy, ConstMatrix x,
                         const float* mean, const float* rstd, const float* weight,
                         Scratch& scratch) {
  const std::int64_t width = x.columns;
  const auto count = static_cast<float>(width);
  const std::int64_t blocks = blocks_of(x.rows, kSumRows);
  // Per block: sums of the weight's and of the bias's gradient, two rows of work.
  const std::int64_t stride = padded_stride(width, sizeof(float));
  float* const partials = scratch.take_array<float>(blocks * 4 * stride);
  for_each_block(x.rows, kSumRows, [&](std::int64_t block, std::int64_t first, std::int64_t end) {
    float* const weight_sum = partials + block * 4 * stride;
    float* const bias_sum = weight_sum + stride;
    float* const slope = bias_sum + stride;
    float* const normal = slope + stride;
    std::fill_n(weight_sum, 2 * stride, 0.0f);
    for (std::int64_t r = first; r < end; ++r) {
      through_weight(weight_sum, bias_sum, slope, normal, dy.row(r), x.row(r), mean[r], rstd[r],
                     weight, width);
      LaneSum slopes;
      slopes.add(slope, width);
      LaneSum along;
      along.add_products(slope, normal, width);
      through_norm(dx.row(r), slope, normal, rstd[r], slopes.total() / count, along.total() / count,
                   width);
      copy_row(dx_factor, r, dx.row(r));
    }
  });
  add_partials(weight_gradient, write, partials, blocks, 4 * stride, width);
  add_partials(bias_gradient, write, partials + stride, blocks, 4 * stride, width);
}

}  // namespace swarmpi::kernels::native
