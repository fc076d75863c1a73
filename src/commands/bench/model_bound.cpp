#include "commands/bench/model_bound.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "commands/bench/bench.hpp"
#include "core/check.hpp"
#include "core/text.hpp"
#include "kernels/block_sum.hpp"
#include "kernels/fixed_point.hpp"
#include "kernels/fixed_point_element.hpp"
#include "model/layout.hpp"
#include "model/tensors.hpp"

namespace swarmpi {
namespace {

using kernels::Write;

constexpr double kBytesPerSecond = 25e9;
constexpr double kGeluSecondsPerElement = 1.1e-9;
// On a device GELU takes what it moves: 6 bytes forward, 14 back.
constexpr double kGeluBytesPerElement = 20;
constexpr double kUpdateBytesPerParameter = 28;
constexpr double kShareOfAttention = 0.6;

/// The three products of a linear layer over so many rows.
class LinearProducts {
 public:
  LinearProducts(kernels::Backend& backend, std::int64_t rows, std::int64_t outputs,
                 std::int64_t inputs)
      : backend_(backend),
        weight_(backend.make_weight(outputs, inputs)),
        master_(backend.allocate(static_cast<std::size_t>(outputs * inputs) * sizeof(float))) {
    memory_ = allocate_layout(backend, [&](Layout& layout) {
      x_ = layout.factor(rows, inputs);
      dy_ = layout.factor(rows, outputs);
      y_ = layout.matrix(rows, outputs);
      dx_ = layout.matrix(rows, inputs);
      gradient_ = layout.matrix(outputs, inputs);
    });
    fill_random(backend, y_, 1, 1);
    backend.copy_factor(dy_, y_);
    fill_random(backend, dx_, 2, 1);
    backend.copy_factor(x_, dx_);
    fill_random(backend, {master_->as<float>(), outputs, inputs}, 3, 1);
    backend.refresh(*weight_, master_->as<float>());
  }

  double best_s(std::int64_t threads) {
    const auto best = [&](const std::function<void()>& call) {
      return time_calls(threads, &backend_, call).min;
    };
    return best([&] { backend_.linear_forward(y_, x_, *weight_, nullptr, {}); }) +
           best([&] { backend_.linear_backward_input(dx_, dy_, *weight_); }) +
           best([&] { backend_.linear_backward_weight(gradient_, nullptr, Write::set, dy_, x_); });
  }

 private:
  kernels::Backend& backend_;
  std::unique_ptr<kernels::Weight> weight_;
  std::unique_ptr<kernels::Memory> master_, memory_;
  kernels::FactorMatrix x_, dy_;
  kernels::Matrix y_, dx_, gradient_;
};

double products_s(const Config& config, kernels::Backend& backend) {
  const ModelConfig& m = config.model;
  const std::int64_t rows = config.train.microbatch_size * m.context;
  const auto timed = [&](std::int64_t r, std::int64_t outputs, std::int64_t inputs) {
    return LinearProducts(backend, r, outputs, inputs).best_s(clock_threads(config, backend));
  };
  const double layer_s = timed(rows, 3 * m.width, m.width) + timed(rows, m.width, m.width) +
                         timed(rows, m.hidden(), m.width) + timed(rows, m.width, m.hidden());
  // The logits of all rows may be far too many: some rows at a time, as the head does it.
  const std::int64_t head_rows = std::min<std::int64_t>(rows, m.vocab > 16384 ? 512 : rows);
  return as_double(m.layers) * layer_s +
         as_double(rows) / as_double(head_rows) * timed(head_rows, m.vocab, m.width);
}

}  // namespace

ModelBound measure_bound(const Config& config, kernels::Backend& backend) {
  const ModelConfig& m = config.model;
  const double rows = as_double(config.train.microbatch_size * m.context);
  const double microbatches = as_double(config.train.microbatches);
  const double width = as_double(m.width), layers = as_double(m.layers);
  const double hidden = as_double(m.hidden()), vocab = as_double(m.vocab);
  const double product_flops =
      6 * rows * (layers * (4 * width * width + 2 * width * hidden) + vocab * width);
  const double attention_flops = 12 * rows * layers * as_double(m.context) * width;
  // Floats that a layer moves for each row beside products: both norms (2 forward, 4 backward), two
  // residuals with their biases (3), the other biases and the sums over gradients for all four.
  const double layer_floats =
      2 * (2 + 4) * width + 2 * 3 * width + 2 * 3 * width + (5 * width + hidden);
  const double bytes_per_s =
      is_device(backend) ? measure_roofline(backend, kOnTheWall).bytes_per_s : kBytesPerSecond;
  const double gelu_s =
      is_device(backend) ? kGeluBytesPerElement / bytes_per_s : kGeluSecondsPerElement;
  ModelBound bound;
  bound.products_s = products_s(config, backend);
  bound.attention_s = kShareOfAttention * attention_flops * bound.products_s / product_flops;
  bound.gelu_s = layers * rows * hidden * gelu_s;
  bound.pointwise_s = rows * (layers * layer_floats + 3 * vocab) * sizeof(float) / bytes_per_s;
  for (double* part : {&bound.products_s, &bound.attention_s, &bound.gelu_s, &bound.pointwise_s}) {
    *part *= microbatches;
  }
  bound.update_s = as_double(parameter_count(m)) * kUpdateBytesPerParameter / bytes_per_s;
  return bound;
}

namespace {

/// Gradients of many weights from the same factors, as training makes them: into exact sums, or as
/// fp32 numbers.
class WeightGradients {
 public:
  WeightGradients(kernels::Backend& backend, std::int64_t rows, std::int64_t outputs,
                  std::int64_t inputs)
      : backend_(backend),
        weight_count_((kLeastElements + outputs * inputs - 1) / (outputs * inputs)),
        element_count_(outputs * inputs),
        outputs_(outputs),
        stride_(backend.row_stride(inputs)),
        // Factors are below 1: no gradient is above the number of rows.
        exponent_(kernels::least_exponent(kernels::magnitude_bits(static_cast<float>(rows)))) {
    memory_ = allocate_layout(backend, [&](Layout& layout) {
      x_ = layout.factor(rows, inputs);
      dy_ = layout.factor(rows, outputs);
      strip_ = layout.matrix(backend.weight_gradient_rows(outputs), inputs);
    });
    copy_random(x_, 1);
    copy_random(dy_, 2);
  }
  std::int64_t count() const { return weight_count_ * element_count_; }
  /// Of fp32 gradients, whose rows lie as products write them fastest.
  std::int64_t float_count() const { return weight_count_ * outputs_ * stride_; }
  std::int16_t exponent() const { return exponent_; }

  void add_exact(std::int64_t* sums, Write write, int bits) {
    for (std::int64_t w = 0; w < weight_count_; ++w) {
      backend_.add_weight_gradient(did_, sums + w * element_count_, write, strip_, nullptr, dy_, x_,
                                   exponent_, bits);
    }
  }
  void add(float* gradients, Write write) {
    for (std::int64_t w = 0; w < weight_count_; ++w) {
      const kernels::Matrix to(gradients + w * outputs_ * stride_, outputs_, strip_.columns,
                               stride_);
      backend_.linear_backward_weight(to, nullptr, write, dy_, x_);
    }
  }
  /// Whether the sums took what was added last.
  bool fits() const { return !did_.flagged(); }

 private:
  // Larger than the caches, as the parameters of all layers together are.
  static constexpr std::int64_t kLeastElements = std::int64_t{1} << 23;

  void copy_random(const kernels::FactorMatrix& to, std::uint32_t name) {
    const auto values =
        backend_.allocate(static_cast<std::size_t>(to.rows * to.columns) * sizeof(float));
    const kernels::Matrix matrix(values->as<float>(), to.rows, to.columns);
    fill_random(backend_, matrix, name, 1);
    backend_.copy_factor(to, matrix);
    backend_.finish();
  }

  kernels::Backend& backend_;
  std::int64_t weight_count_, element_count_, outputs_, stride_;
  std::int16_t exponent_;
  std::unique_ptr<kernels::Memory> memory_;
  kernels::FactorMatrix x_, dy_;
  kernels::Matrix strip_;
  kernels::Contribution did_;
};

}  // namespace

double measure_exactness_s(const Config& config, kernels::Backend& backend) {
  const ModelConfig& m = config.model;
  WeightGradients gradients(backend, config.train.microbatch_size * m.context, m.hidden(), m.width);
  const std::int64_t count = gradients.count();
  const auto floats = [&] {
    return backend.allocate(static_cast<std::size_t>(count) * sizeof(float));
  };
  const auto rounded =
      backend.allocate(static_cast<std::size_t>(gradients.float_count()) * sizeof(float));
  const auto weights = floats(), moment1 = floats(), moment2 = floats();
  const auto sums = backend.allocate(static_cast<std::size_t>(count) * sizeof(std::int64_t));
  std::vector<double> squares(static_cast<std::size_t>(count / kernels::kSumBlock + 1));

  const kernels::UpdateParameters parameters{0.9f, 0.95f, 1e-8f, 1e-5f, 0.1f, 1, 0.1f, 0.05f};
  kernels::UpdateBuffers buffers;
  std::uint64_t hash = 0;
  buffers.new_weights = weights->as<float>();
  buffers.old_weights = buffers.new_weights;
  buffers.moment1 = moment1->as<float>();
  buffers.moment2 = moment2->as<float>();
  buffers.count = count;
  const int bits = kernels::fixed_point_bits(config.train.microbatches);
  const double quantum =
      kernels::quantum_per_token(kernels::quantum_exponent(gradients.exponent(), bits), 1024);
  auto* const integers = sums->as<std::int64_t>();
  const auto best_s = [&](const std::function<void()>& call) {
    return time_calls(clock_threads(config, backend), &backend, call).min;
  };
  const double exact_s = best_s([&] {
    gradients.add_exact(integers, Write::set, bits);
    backend.round_sums(nullptr, squares.data(), integers, count, quantum);
    buffers.gradient = {nullptr, integers, quantum};
    backend.update_adamw(hash, buffers, parameters);
  });
  SWARMPI_CHECK(gradients.fits(), "gradients that are larger than their exponent");
  const double fast_s = best_s([&] {
    gradients.add(rounded->as<float>(), Write::set);
    buffers.gradient = {rounded->as<float>(), nullptr, 0};
    backend.update_adamw(hash, buffers, parameters);
  });
  // What further microbatches add. Of the token table only the rows that are read have a gradient.
  const double further_s = best_s([&] { gradients.add_exact(integers, Write::add, bits); }) -
                           best_s([&] { gradients.add(rounded->as<float>(), Write::add); });
  const std::int64_t unread =
      std::max<std::int64_t>(0, m.vocab - config.train.microbatch_size * m.context) * m.width;
  const std::int64_t all = parameter_count(m);
  return ((exact_s - fast_s) * as_double(all) +
          as_double(config.train.microbatches - 1) * further_s * as_double(all - unread)) /
         as_double(count);
}

}  // namespace swarmpi
