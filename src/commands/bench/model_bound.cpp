#include "commands/bench/model_bound.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "commands/bench/bench.hpp"
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

double as_double(std::int64_t value) { return static_cast<double>(value); }

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

/// A gradient on its way into sums, whole or in strips as the backend makes those of weights: each
/// strip is the same one, in the cache if it fits, as a product leaves it.
class GradientInStrips {
 public:
  GradientInStrips(kernels::Backend& backend, std::int64_t columns)
      : backend_(backend),
        rows_(kElements / columns),
        strip_(nullptr, backend.weight_gradient_rows(rows_), columns),
        memory_(backend.allocate(static_cast<std::size_t>(strip_.rows * columns) * sizeof(float))) {
    strip_.data = memory_->as<float>();
    fill_random(backend, strip_, 4, 1);
  }
  std::int64_t count() const { return rows_ * strip_.columns; }

  void add(std::int64_t* sums, Write write, int bits) {
    for_each_strip([&](std::int64_t first, kernels::ConstMatrix strip) {
      backend_.add_gradient(unused_, sums + first, write, strip, 0, bits);
    });
  }
  /// As long rows, whatever their number: copies of some short ones are slow.
  void copy(float* to) {
    for_each_strip([&](std::int64_t first, kernels::ConstMatrix strip) {
      const std::int64_t count = strip.rows * strip.columns;
      backend_.copy({to + first, 1, count}, {strip.data, 1, count});
    });
  }

 private:
  // Larger than the caches, as the parameters of all layers together are.
  static constexpr std::int64_t kElements = std::int64_t{1} << 23;

  template <class Visit>
  void for_each_strip(const Visit& visit) {
    for (std::int64_t row = 0; row < rows_; row += strip_.rows) {
      const std::int64_t rows = std::min(strip_.rows, rows_ - row);
      visit(row * strip_.columns, kernels::ConstMatrix(strip_.data, rows, strip_.columns));
    }
  }

  kernels::Backend& backend_;
  std::int64_t rows_;
  kernels::Matrix strip_;
  std::unique_ptr<kernels::Memory> memory_;
  kernels::Contribution unused_;
};

}  // namespace

double measure_exactness_s(const Config& config, kernels::Backend& backend) {
  GradientInStrips gradient(backend, config.model.width);
  const std::int64_t count = gradient.count();
  const auto floats = [&] {
    return backend.allocate(static_cast<std::size_t>(count) * sizeof(float));
  };
  const auto copied = floats(), weights = floats(), moment1 = floats(), moment2 = floats();
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
  const double quantum = kernels::quantum_per_token(kernels::quantum_exponent(0, bits), 1024);
  auto* const integers = sums->as<std::int64_t>();
  const auto best_s = [&](const std::function<void()>& call) {
    return time_calls(clock_threads(config, backend), &backend, call).min;
  };
  const double exact_s = best_s([&] {
    gradient.add(integers, Write::set, bits);
    backend.round_sums(nullptr, squares.data(), integers, count, quantum);
    buffers.gradient = {nullptr, integers, quantum};
    backend.update_adamw(hash, buffers, parameters);
  });
  const double fast_s = best_s([&] {
    gradient.copy(copied->as<float>());
    buffers.gradient = {copied->as<float>(), nullptr, 0};
    backend.update_adamw(hash, buffers, parameters);
  });
  // What further microbatches add: a sum in fp32 moves as many bytes as a copy. Of the token table
  // only the rows that are read have a gradient.
  const double further_s = best_s([&] { gradient.add(integers, Write::add, bits); }) -
                           best_s([&] { gradient.copy(copied->as<float>()); });
  const ModelConfig& m = config.model;
  const std::int64_t unread =
      std::max<std::int64_t>(0, m.vocab - config.train.microbatch_size * m.context) * m.width;
  const std::int64_t all = parameter_count(m);
  return ((exact_s - fast_s) * as_double(all) +
          as_double(config.train.microbatches - 1) * further_s * as_double(all - unread)) /
         as_double(count);
}

}  // namespace swarmpi
