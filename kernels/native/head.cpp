#include "kernels/native/head.hpp"

#include <algorithm>
#include <limits>

#include "kernels/block_sum.hpp"
#include "kernels/native/lanes.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/native/stored.hpp"
#include "kernels/native/vector_math.hpp"
#include "kernels/portable_math.hpp"

namespace swarmpi::kernels::native {

namespace {

constexpr std::int64_t kRowsAtOnce = 16;

void exponentials(float* __restrict logits, float largest, std::int64_t count) {
  for (std::int64_t v = 0; v < count; ++v) logits[v] = exp_or_zero(logits[v] - largest);
}

/// x = from * factor; x may be `from`.
template <class T>
void scale_row(T* x, const float* from, float factor, std::int64_t count) {
  for_each_vector(count, [=](const auto& at, const auto& put) { put(x, at(from) * factor); });
}

double sum_of(const float* x, std::int64_t count) {
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += kSumBlock) {
    LaneSum block;
    block.add(x + first, std::min(kSumBlock, count - first));
    sum += static_cast<double>(block.total());
  }
  return sum;
}

/// The row's loss; its logits turn into exponentials, which add up to `sum`.
double loss_of_row(float* logits, std::int64_t vocabulary, std::int32_t target, double& sum) {
  const float largest = largest_of(logits, vocabulary);
  const double target_logit = logits[target];
  exponentials(logits, largest, vocabulary);
  sum = sum_of(logits, vocabulary);
  return portable_log(sum) + (static_cast<double>(largest) - target_logit);
}

/// In index order. All NaNs are one, since losses are compared by bits.
double sum_in_order(const double* losses, std::int64_t count) {
  double sum = 0;
  for (std::int64_t r = 0; r < count; ++r) sum += losses[r];
  return sum == sum ? sum : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::int64_t LossHead::rows_at_once(std::int64_t rows, std::int64_t vocabulary) {
  // 128 MiB. Fewer are slower: each block adds to the gradient of all weights.
  constexpr std::int64_t kLogits = std::int64_t{1} << 25;
  const auto unit = [](std::int64_t count) { return count >= 256 ? 64 : 16; };
  const std::int64_t room = std::clamp<std::int64_t>(kLogits / vocabulary, 16, 1024);
  const std::int64_t most = room - room % unit(room);
  const std::int64_t even = blocks_of(rows, blocks_of(rows, most));
  return blocks_of(even, unit(even)) * unit(even);
}

std::array<Need, 4> LossHead::needs(std::int64_t rows, std::int64_t width,
                                    std::int64_t vocabulary) {
  const std::int64_t block = std::min(rows, rows_at_once(rows, vocabulary));
  const std::int64_t stride = products_.stride(vocabulary, Element::fp32);
  return {Need::of<double>(losses_, rows), Need::of<float>(logits_, block * stride),
          products_.factor_need(rows, width, x_copy_),
          Need(logits_copy_, products_.rounds() ? products_.copy_bytes(block, vocabulary) : 0)};
}

Matrix LossHead::logits(std::int64_t rows, std::int64_t vocabulary) {
  const std::int64_t stride = products_.stride(vocabulary, Element::fp32);
  return {logits_.take_array<float>(rows * stride), rows, vocabulary, stride};
}

FactorMatrix LossHead::slopes(const Matrix& logits) {
  if (products_.element() == Element::fp32) return logits;
  const std::int64_t stride = products_.copy_stride(logits.columns);
  return {logits_copy_.take(products_.copy_bytes(logits.rows, logits.columns)), logits.rows,
          logits.columns, stride, Element::bf16};
}

double LossHead::loss(ConstFactor x, const NativeWeight& weight, const std::int32_t* targets) {
  const std::int64_t vocabulary = weight.outputs();
  take_all(needs(x.rows, x.columns, vocabulary));
  double* const losses = losses_.take_array<double>(x.rows);
  const Factor x_factor = products_.factor(x, x_copy_);
  const std::int64_t step = rows_at_once(x.rows, vocabulary);
  for (std::int64_t first = 0; first < x.rows; first += step) {
    const Matrix z = logits(std::min(step, x.rows - first), vocabulary);
    products_.multiply(z, products_.part(x_factor, first), weight.forward(), x.columns, Write::set);
    for_each_block(z.rows, kRowsAtOnce, [&](std::int64_t, std::int64_t from, std::int64_t end) {
      for (std::int64_t r = from; r < end; ++r) {
        const std::int32_t target = targets[first + r];
        double sum = 0;
        losses[first + r] =
            target == kNoTarget ? 0.0 : loss_of_row(z.row(r), vocabulary, target, sum);
      }
    });
  }
  return sum_in_order(losses, x.rows);
}

double LossHead::loss_backward(Matrix dx, Matrix weight_gradient, ConstFactor x,
                               const NativeWeight& weight, const std::int32_t* targets) {
  const std::int64_t vocabulary = weight_gradient.rows;
  take_all(needs(x.rows, x.columns, vocabulary));
  double* const losses = losses_.take_array<double>(x.rows);
  const Factor x_factor = products_.factor(x, x_copy_);
  const std::int64_t step = rows_at_once(x.rows, vocabulary);
  for (std::int64_t first = 0; first < x.rows; first += step) {
    const Matrix z = logits(std::min(step, x.rows - first), vocabulary);
    const Factor x_part = products_.part(x_factor, first);
    products_.multiply(z, x_part, weight.forward(), x.columns, Write::set);
    const FactorMatrix slope = slopes(z);
    with_rows(slope, [&](const auto rows) {
      for_each_block(z.rows, kRowsAtOnce, [&](std::int64_t, std::int64_t from, std::int64_t end) {
        for (std::int64_t r = from; r < end; ++r) {
          const std::int32_t target = targets[first + r];
          double sum = 0;
          losses[first + r] = loss_of_row(z.row(r), vocabulary, target, sum);
          const auto factor = static_cast<float>(1.0 / sum);
          const float of_target = z.row(r)[target] * factor - 1.0f;
          scale_row(rows.row(r), z.row(r), factor, vocabulary);
          store(rows.row(r)[target], of_target);
        }
      });
    });
    const Factor dz = products_.factor(slope, logits_copy_);
    const Matrix dx_part(dx.row(first), z.rows, dx.columns, dx.stride);
    products_.multiply(dx_part, dz, weight.backward(), vocabulary, Write::set);
    products_.multiply(weight_gradient, dz.transposed(), x_part, z.rows,
                       first == 0 ? Write::set : Write::add);
  }
  return sum_in_order(losses, x.rows);
}

}  // namespace swarmpi::kernels::native
