#include "commands/bench/kernel_operations.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>

#include "commands/bench/bench.hpp"
#include "core/check.hpp"
#include "kernels/bfloat16.hpp"
#include "kernels/block_sum.hpp"
#include "kernels/fixed_point_element.hpp"

namespace swarmpi {

using kernels::ConstFactor;
using kernels::ConstMatrix;
using kernels::FactorMatrix;
using kernels::Matrix;
using kernels::Write;

namespace {

// Of a sum of K terms in fp32 in another order: the rounding errors walk at random, 2^-24 a step,
// and the largest of many outputs is a few times their spread.
double product_bound(std::int64_t inputs) {
  return 4 * 0x1p-24 * std::sqrt(static_cast<double>(inputs));
}
// Of a few operations on single elements and sums over rows, with another exp or tanh.
constexpr double kPointwiseBound = 0x1p-18;
// Where a value that differs in its last bit is rounded to bf16 on the way, it may fall on the
// other side.
constexpr double kBf16Bound = 0x1p-6;

double largest(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }

/// Rows of a backend's matrix, as they lie.
template <class Value>
std::vector<Value> rows_of(const ConstFactor& m, const kernels::Backend& backend) {
  std::vector<Value> rows(static_cast<std::size_t>((m.rows - 1) * m.stride + m.columns));
  backend.download(rows.data(), m.data, rows.size() * sizeof(Value));
  return rows;
}

template <class Value, class AsDouble>
std::vector<double> elements(const ConstFactor& m, const kernels::Backend& backend,
                             const AsDouble& as_double) {
  const std::vector<Value> rows = rows_of<Value>(m, backend);
  std::vector<double> values;
  for (std::int64_t r = 0; r < m.rows; ++r) {
    for (std::int64_t c = 0; c < m.columns; ++c) {
      values.push_back(as_double(rows[static_cast<std::size_t>(r * m.stride + c)]));
    }
  }
  return values;
}

HostOutput on_host(const ConstFactor& m, const kernels::Backend& backend) {
  if (m.element == kernels::Element::fp32) {
    return elements<float>(m, backend, [](float value) { return double{value}; });
  }
  return elements<std::uint16_t>(
      m, backend, [](std::uint16_t value) { return double{kernels::float_from_bf16(value)}; });
}

HostOutput on_host(const Integers& integers, const kernels::Backend& backend) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(integers.count));
  backend.download(values.data(), integers.data, values.size() * sizeof(std::int64_t));
  return values;
}

HostOutput on_host(const Addends& addends, const kernels::Backend& /*backend*/) {
  return std::accumulate(addends.data, addends.data + addends.count, 0.0);
}

double error_of(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = largest(difference, std::abs(a[i] - b[i]));
    size = largest(size, std::abs(b[i]));
  }
  return difference == 0 ? 0 : difference / size;
}

double error_of(double a, double b) { return a == b ? 0 : std::abs(a - b) / std::abs(b); }

double error_of(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  return a == b ? 0 : std::numeric_limits<double>::infinity();
}

}  // namespace

double relative_error(const std::vector<HostOutput>& a, const std::vector<HostOutput>& b) {
  SWARMPI_CHECK(a.size() == b.size(), "outputs of one operation on two backends");
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = std::visit(
        [&](const auto& x) { return error_of(x, std::get<std::decay_t<decltype(x)>>(b[i])); },
        a[i]);
    if (!std::isfinite(error)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, error);
  }
  return worst;
}

struct KernelOperations::Impl {
  Impl(const Config& config, kernels::Backend& b)
      : backend(b),
        sequences(config.train.microbatch_size),
        context(config.model.context),
        rows(sequences * context),
        width(config.model.width),
        heads(config.model.heads),
        hidden(config.model.hidden()),
        vocab(config.model.vocab) {
    add_embedding();
    add_layer_norm();
    add_linear("qkv", 3 * width, width, Rounded::result);
    add_linear("projection", width, width, Rounded::slopes);
    add_gelu();
    add_linear("down", width, hidden, Rounded::nothing);
    add_attention();
    add_head();
    add_group_max();
    add_sums();
    add_updates();
  }

  Matrix matrix(std::int64_t r, std::int64_t c) {
    const std::int64_t stride = backend.row_stride(c);
    return {floats(r * stride), r, c, stride};
  }
  Matrix random(std::int64_t r, std::int64_t c, float scale = 1) {
    const Matrix m = matrix(r, c);
    fill_random(backend, m, ++inputs, scale);
    return m;
  }
  FactorMatrix factor(std::int64_t r, std::int64_t c) {
    const kernels::Element element = backend.factor_element();
    const std::int64_t stride = backend.factor_stride(c);
    memory.push_back(backend.allocate(static_cast<std::size_t>(r * stride) * size_of(element)));
    return {memory.back()->data(), r, c, stride, element};
  }
  FactorMatrix random_factor(std::int64_t r, std::int64_t c, float scale = 1) {
    std::vector<float> values = random_values(r, c, ++inputs, scale);
    if (backend.precision() == kernels::Precision::bf16) {  // backends that keep fp32 have the same
      for (float& value : values) value = kernels::round_to_bf16(value);
    }
    const Matrix m = matrix(r, c);
    backend.copy_in(m, values.data());
    const FactorMatrix f = factor(r, c);
    backend.copy_factor(f, m);
    return f;
  }
  float* floats(std::int64_t count) {
    memory.push_back(backend.allocate(static_cast<std::size_t>(count) * sizeof(float)));
    return memory.back()->as<float>();
  }
  float* random_vector(std::int64_t count, float scale = 1) {
    float* const v = floats(count);
    fill_random(backend, {v, 1, count}, ++inputs, scale);
    return v;
  }
  double* doubles(std::int64_t count) {
    return host_doubles.emplace_back(static_cast<std::size_t>(count)).data();
  }
  const std::int32_t* tokens_below(std::int64_t count) {
    std::vector<std::int32_t>& t = tokens.emplace_back();
    for (std::int64_t r = 0; r < rows; ++r)
      t.push_back(static_cast<std::int32_t>(r * 7919 % count));
    return t.data();
  }
  const kernels::Weight& weight(std::int64_t outputs, std::int64_t columns, float scale) {
    const float* const master = random_vector(outputs * columns, scale);
    weights.push_back(backend.make_weight(outputs, columns));
    backend.refresh(*weights.back(), master);
    return *weights.back();
  }
  static double bytes(std::int64_t elements) { return 4.0 * static_cast<double>(elements); }
  double factor_bytes(std::int64_t elements) const {
    return static_cast<double>(size_of(backend.factor_element())) * static_cast<double>(elements);
  }
  double product_flops(std::int64_t outputs, std::int64_t columns) const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(outputs * columns);
  }
  double rounded_bound(double fp32) const {
    return backend.precision() == kernels::Precision::bf16 ? kBf16Bound : fp32;
  }

  void add_embedding();
  void add_layer_norm();
  /// Which result of a linear layer is made as a factor of the next product.
  enum class Rounded { nothing, result, slopes };
  void add_linear(const std::string& name, std::int64_t outputs, std::int64_t columns,
                  Rounded rounded);
  void add_gelu();
  void add_attention();
  void add_head();
  void add_group_max();
  void add_sums();
  void add_updates();

  kernels::Backend& backend;
  const std::int64_t sequences, context, rows, width, heads, hidden, vocab;
  std::uint32_t inputs = 0;
  std::vector<std::unique_ptr<kernels::Memory>> memory;
  std::vector<std::unique_ptr<kernels::Weight>> weights;
  std::deque<std::vector<std::int32_t>> tokens;
  std::deque<std::vector<double>> host_doubles;
  kernels::Contribution contribution;
  std::uint64_t hash = 0, hash_before = 0, hash_after = 0;
  std::vector<Operation> list;
};

void KernelOperations::Impl::add_embedding() {
  const Matrix x = matrix(rows, width), dx = random(rows, width);
  // Of the rows that tokens have read.
  const std::int64_t read = std::min(rows, vocab);
  const Matrix token_gradient = matrix(read, width), position_gradient = matrix(context, width);
  const float* const token_table = random_vector(vocab * width);
  const float* const positions = random_vector(context * width);
  const std::int32_t* const t = tokens_below(vocab);
  const std::int32_t* const read_tokens = tokens_below(read);
  list.push_back({"embed_forward",
                  [=, this] { backend.embed_forward(x, t, token_table, positions, context); },
                  {x},
                  0,
                  bytes(3 * rows * width),
                  0});
  list.push_back(
      {"embed_backward",
       [=, this] { backend.embed_backward(token_gradient, position_gradient, dx, read_tokens); },
       {token_gradient, position_gradient},
       0,
       bytes(rows * width + (read + context) * width),
       0});
}

void KernelOperations::Impl::add_layer_norm() {
  const Matrix x = random(rows, width);
  const FactorMatrix y = factor(rows, width);
  const Matrix dx = random(rows, width), dy = random(rows, width);
  const bool rounds = backend.factor_element() == kernels::Element::bf16;
  const FactorMatrix dx_factor = rounds ? factor(rows, width) : FactorMatrix();
  float* const mean = floats(rows);
  float* const rstd = floats(rows);
  float* const weight_gradient = floats(width);
  float* const bias_gradient = floats(width);
  const float* const w = random_vector(width);
  const float* const bias = random_vector(width);
  list.push_back({"layer_norm_forward",
                  [=, this] { backend.layer_norm_forward(y, mean, rstd, x, w, bias); },
                  {y, ConstMatrix(rstd, 1, rows)},
                  0,
                  bytes(rows * width) + factor_bytes(rows * width),
                  rounded_bound(kPointwiseBound)});
  list.push_back(
      {"layer_norm_backward",
       [=, this] {
         backend.layer_norm_backward(dx, dx_factor, weight_gradient, bias_gradient, Write::set, dy,
                                     x, mean, rstd, w);
       },
       {dx, ConstMatrix(weight_gradient, 1, width), ConstMatrix(bias_gradient, 1, width)},
       0,
       bytes(4 * rows * width),
       kPointwiseBound});
}

void KernelOperations::Impl::add_linear(const std::string& name, std::int64_t outputs,
                                        std::int64_t columns, Rounded rounded) {
  const FactorMatrix x = random_factor(rows, columns), dy = random_factor(rows, outputs);
  const float* const bias = random_vector(outputs);
  const kernels::Weight& w = weight(outputs, columns, 1);
  const double flops = product_flops(outputs, columns);
  if (rounded == Rounded::result) {
    const FactorMatrix y = factor(rows, outputs);
    list.push_back({"linear_forward_factor " + name,
                    [=, this, &w] { backend.linear_forward_factor(y, x, w, bias); },
                    {y},
                    flops,
                    0,
                    rounded_bound(product_bound(columns))});
  } else {
    const Matrix y = matrix(rows, outputs), residual = random(rows, outputs);
    list.push_back({"linear_forward " + name,
                    [=, this, &w] { backend.linear_forward(y, x, w, bias, residual); },
                    {y},
                    flops,
                    0,
                    product_bound(columns)});
  }
  if (rounded == Rounded::slopes) {
    const FactorMatrix dx = factor(rows, columns);
    list.push_back({"linear_backward_input_factor " + name,
                    [=, this, &w] { backend.linear_backward_input_factor(dx, dy, w); },
                    {dx},
                    flops,
                    0,
                    rounded_bound(product_bound(outputs))});
  } else {
    const Matrix dx = matrix(rows, columns);
    list.push_back({"linear_backward_input " + name,
                    [=, this, &w] { backend.linear_backward_input(dx, dy, w); },
                    {dx},
                    flops,
                    0,
                    product_bound(outputs)});
  }
  const Matrix weight_gradient = matrix(outputs, columns);
  float* const bias_gradient = floats(outputs);
  list.push_back({"linear_backward_weight " + name,
                  [=, this] {
                    backend.linear_backward_weight(weight_gradient, bias_gradient, Write::set, dy,
                                                   x);
                  },
                  {weight_gradient, ConstMatrix(bias_gradient, 1, outputs)},
                  flops,
                  0,
                  product_bound(rows)});
}

void KernelOperations::Impl::add_gelu() {
  const FactorMatrix x = random_factor(rows, width), activated = factor(rows, hidden);
  const FactorMatrix dy = random_factor(rows, width), dpre = factor(rows, hidden);
  const Matrix pre = matrix(rows, hidden);
  const float* const bias = random_vector(hidden);
  const float scale = 1 / std::sqrt(static_cast<float>(width));
  const kernels::Weight& up = weight(hidden, width, scale);
  const kernels::Weight& down = weight(width, hidden, scale);
  const double flops = product_flops(hidden, width);
  const double bound = rounded_bound(product_bound(width) + kPointwiseBound);
  list.push_back({"linear_gelu_forward",
                  [=, this, &up] { backend.linear_gelu_forward(pre, activated, x, up, bias); },
                  {pre, activated},
                  flops,
                  0,
                  bound});
  list.push_back({"linear_gelu_backward_input",
                  [=, this, &down] { backend.linear_gelu_backward_input(dpre, dy, down, pre); },
                  {dpre},
                  flops,
                  0,
                  bound});
}

void KernelOperations::Impl::add_attention() {
  const kernels::AttentionShape shape{sequences, context, heads, width / heads};
  const FactorMatrix qkv = random_factor(rows, 3 * width, 2), out = factor(rows, width);
  const FactorMatrix dout = random_factor(rows, width), dqkv = factor(rows, 3 * width);
  float* const log_sum = floats(sequences * heads * context);
  // Causal: half of the T x T products count.
  const double half = 2.0 * static_cast<double>(rows * context * width);
  const double bound = rounded_bound(product_bound(context) + kPointwiseBound);
  list.push_back({"attention_forward",
                  [=, this] { backend.attention_forward(out, log_sum, qkv, shape); },
                  {out, ConstMatrix(log_sum, 1, sequences * heads * context)},
                  half,
                  0,
                  bound});
  list.push_back({"attention_backward",
                  [=, this] { backend.attention_backward(dqkv, dout, qkv, out, log_sum, shape); },
                  {dqkv},
                  2 * half,
                  0,
                  bound});
}

void KernelOperations::Impl::add_head() {
  const FactorMatrix x = random_factor(rows, width);
  const Matrix dx = matrix(rows, width), weight_gradient = matrix(vocab, width);
  const kernels::Weight& head = weight(vocab, width, 3 / std::sqrt(static_cast<float>(width)));
  const std::int32_t* const t = tokens_below(vocab);
  double* const loss = doubles(1);
  double* const loss_again = doubles(1);
  const double flops = product_flops(vocab, width);
  list.push_back({"head_loss",
                  [=, this, &head] { backend.head_loss(*loss, x, head, t); },
                  {Addends{loss, 1}},
                  flops,
                  0,
                  kPointwiseBound});
  list.push_back({"head_loss_backward",
                  [=, this, &head] {
                    backend.head_loss_backward(*loss_again, dx, weight_gradient, x, head, t);
                  },
                  {Addends{loss_again, 1}, dx, weight_gradient},
                  3 * flops,
                  0,
                  rounded_bound(product_bound(std::max(vocab, rows)) + kPointwiseBound)});
}

void KernelOperations::Impl::add_group_max() {
  const Matrix x = random(rows, width), dx = matrix(rows, width);
  const Matrix y = matrix(rows, width / 2), dy = random(rows, width / 2);
  const double elements = bytes(rows * width);
  list.push_back({"group_max_forward, pairs",
                  [=, this] { backend.group_max_forward(y, x); },
                  {y},
                  0,
                  1.5 * elements,
                  0});
  list.push_back({"group_max_backward, pairs",
                  [=, this] { backend.group_max_backward(dx, dy, x); },
                  {dx},
                  0,
                  2.5 * elements,
                  0});
}

void KernelOperations::Impl::add_sums() {
  // A microbatch among very many: the timings' many additions stay within 2^62.
  constexpr std::int64_t kMicrobatches = std::int64_t{1} << 30;
  constexpr std::int16_t kExponent = 0;  // of values in (-1, 1)
  constexpr std::int64_t kTokens = 1000;
  const int bits = kernels::fixed_point_bits(kMicrobatches);
  const double quantum_per_token =
      kernels::quantum_per_token(kernels::quantum_exponent(kExponent, bits), kTokens);
  const std::int64_t count = hidden * width;
  const Matrix gradient = random(hidden, width);
  memory.push_back(backend.allocate(static_cast<std::size_t>(count) * sizeof(std::int64_t)));
  auto* const sums = memory.back()->as<std::int64_t>();
  float* const rounded = floats(count);
  const std::int64_t blocks = (count + kernels::kSumBlock - 1) / kernels::kSumBlock;
  double* const squares = doubles(blocks);
  list.push_back({"add_gradient",
                  [=, this] {
                    backend.add_gradient(contribution, sums, Write::add, gradient, kExponent, bits);
                  },
                  {Integers{sums, count}},
                  0,
                  5 * bytes(count),
                  0});
  list.push_back(
      {"round_sums",
       [=, this] { backend.round_sums(rounded, squares, sums, count, quantum_per_token); },
       {ConstMatrix(rounded, 1, count), Addends{squares, blocks}},
       0,
       3 * bytes(count),
       0x1p-50});
}

void KernelOperations::Impl::add_updates() {
  const std::int64_t count = hidden * width;
  const kernels::UpdateParameters parameters{0.9f, 0.95f, 1e-8f, 1e-3f, 0.1f, 1, 0.1f, 0.05f};
  const auto make_buffers = [&] {
    kernels::UpdateBuffers buffers;
    buffers.new_weights = random_vector(count);
    buffers.old_weights = buffers.new_weights;
    buffers.moment1 = floats(count);
    buffers.moment2 = floats(count);
    buffers.gradient.rounded = random_vector(count);
    buffers.count = count;
    return buffers;
  };
  const auto outputs_of = [&](const kernels::UpdateBuffers& buffers) -> std::vector<Output> {
    return {ConstMatrix(buffers.new_weights, 1, count), ConstMatrix(buffers.moment1, 1, count),
            ConstMatrix(buffers.moment2, 1, count)};
  };
  const auto add = [&](const char* name, bool lamb, double passes) {
    const kernels::UpdateBuffers buffers = make_buffers();
    list.push_back({name,
                    [=, this] {
                      if (lamb)
                        backend.update_lamb(hash, buffers, parameters);
                      else
                        backend.update_adamw(hash, buffers, parameters);
                    },
                    outputs_of(buffers), 0, passes * bytes(count), kPointwiseBound});
  };
  add("update_adamw", false, 7);
  add("update_lamb", true, 11);  // norms first: reads weights, moments and gradient twice
  const float* const master = random_vector(count);
  weights.push_back(backend.make_weight(hidden, width));
  kernels::Weight& refreshed = *weights.back();
  const auto copied = static_cast<double>(backend.weight_bytes(hidden, width));
  list.push_back({"refresh",
                  [=, this, &refreshed] { backend.refresh(refreshed, master); },
                  {},  // its form is the backend's own; the products show whether it is right
                  0,
                  copied == 0 ? 0 : bytes(count) + copied,
                  0});
  // How matrices are updated, with the copies that products read: hashed, made anew, hashed.
  weights.push_back(backend.make_weight(hidden, width));
  kernels::Weight& updated = *weights.back();
  const kernels::UpdateBuffers with_copies = make_buffers();
  backend.refresh(updated, with_copies.old_weights);
  list.push_back({"update_adamw_and_copies",
                  [=, this, &updated] {
                    backend.update_adamw_and_copies(hash, with_copies, parameters,
                                                    {&updated, &hash_before, &hash_after});
                  },
                  outputs_of(with_copies), 0, 7 * bytes(count) + 2 * copied, kPointwiseBound});
  list.push_back({"hash_weights",
                  [=, this] { backend.hash_weights(hash, master, count, 0); },
                  {},
                  0,
                  bytes(count)});
  if (copied == 0) return;
  list.push_back({"hash_copies",
                  [=, this, &refreshed] { backend.hash_copies(hash, refreshed); },
                  {},
                  0,
                  copied});
}

KernelOperations::KernelOperations(const Config& config, kernels::Backend& backend)
    : impl_(std::make_unique<Impl>(config, backend)) {}
KernelOperations::~KernelOperations() = default;

const std::vector<Operation>& KernelOperations::operations() const { return impl_->list; }

std::vector<HostOutput> KernelOperations::outputs(std::size_t operation) const {
  impl_->backend.finish();
  SWARMPI_CHECK(!impl_->contribution.flagged(), "a gradient that is added");
  std::vector<HostOutput> outputs;
  for (const Output& output : impl_->list[operation].outputs) {
    outputs.push_back(
        std::visit([&](const auto& o) { return on_host(o, impl_->backend); }, output));
  }
  return outputs;
}

}  // namespace swarmpi
