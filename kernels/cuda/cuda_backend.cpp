#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "core/check.hpp"
#include "kernels/backend.hpp"
#include "kernels/block_sum.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/boundary_copies.hpp"
#include "kernels/cuda/codecs.hpp"
#include "kernels/cuda/column_sums.hpp"
#include "kernels/cuda/cross_entropy.hpp"
#include "kernels/cuda/cublas_lt.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/embedding.hpp"
#include "kernels/cuda/group_max.hpp"
#include "kernels/cuda/layer_norm.hpp"
#include "kernels/cuda/optimizer.hpp"
#include "kernels/cuda/order_free_sums.hpp"
#include "kernels/cuda/pointwise.hpp"
#include "kernels/cuda/product.hpp"
#include "kernels/cuda/state_hash.hpp"
#include "kernels/cuda/weight.hpp"
#include "kernels/fixed_point_element.hpp"
#include "kernels/rounding_mode.hpp"

namespace swarmpi::kernels {
namespace cuda {
namespace {

std::size_t bytes_of(std::int64_t count, std::size_t size_of_one) {
  return static_cast<std::size_t>(count) * size_of_one;
}

/// Rows first .. first + count - 1.
ConstFactor rows_of(const ConstFactor& m, std::int64_t first, std::int64_t count) {
  const auto* const data =
      static_cast<const std::byte*>(m.data) + bytes_of(first * m.stride, size_of(m.element));
  return {data, count, m.columns, m.stride, m.element};
}

/// The most that crosses a cut at a time: in fp32.
std::size_t boundary_bytes(const WorkShape& shape) {
  return bytes_of(shape.sequences * shape.context * shape.width, sizeof(float));
}

/// Rows of logits that are made at a time: as many as some memory takes, in whole tiles of
/// products.
std::int64_t head_rows(std::int64_t rows, std::int64_t vocabulary) {
  constexpr std::int64_t kLogits = std::int64_t(1) << 27;  // 512 MB of fp32
  constexpr std::int64_t kTile = 128;
  return std::min(rows, std::max(kTile, kLogits / vocabulary / kTile * kTile));
}

/// Smaller ones are copied as fast from any memory of the host, and cost less there.
constexpr std::size_t kLeastPinned = std::size_t(64) << 10;

/// Not for several threads at the same time: scratch memory is shared by all calls.
class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const BackendOptions& options)
      : options_(options), products_(device_, options.tf32) {}

  std::string name() const override { return "cuda"; }
  Precision precision() const override { return options_.precision; }
  std::string identity() const override {
    int driver = 0;
    check(cudaDriverGetVersion(&driver), "asking for the driver's version");
    return description(device_.properties()) + ", driver for CUDA " + std::to_string(driver) +
           ", cuBLASLt " + std::to_string(products_.library_version()) +
           (options_.tf32 ? ", TF32" : "");
  }

  std::unique_ptr<Memory> allocate(std::size_t size_bytes) override {
    return std::make_unique<DeviceMemory>(device_.index(), size_bytes);
  }
  std::optional<OwnMemory> own_memory() const override { return device_.memory(); }
  std::optional<int> device() const override { return device_.index(); }
  std::shared_ptr<std::byte> allocate_host(std::size_t size_bytes) override;
  void fetch_ahead(std::shared_ptr<const std::byte> from_host, std::size_t size_bytes) override {
    if (size_bytes >= kLeastPinned) copies_.fetch_ahead(std::move(from_host), size_bytes);
  }

  void upload(void* to, const void* from_host, std::size_t size_bytes) override {
    device_.upload(to, from_host, size_bytes);
  }
  void download(void* to_host, const void* from, std::size_t size_bytes) const override {
    device_.download(to_host, from, size_bytes);
  }
  const void* host_view(const void* from, std::size_t size_bytes, void* room) const override {
    device_.download(room, from, size_bytes);
    return room;
  }
  void* host_place(void* /*to*/, void* room) const override { return room; }
  std::uint64_t state_hash(const float* weights, const float* moment1, const float* moment2,
                           std::int64_t count, std::int64_t first_index) const override;

  std::int64_t row_stride(std::int64_t columns) const override { return padded_bf16(columns); }
  Element factor_element() const override {
    return options_.precision == Precision::bf16 ? Element::bf16 : Element::fp32;
  }
  std::int64_t factor_stride(std::int64_t columns) const override { return padded_bf16(columns); }
  void reserve(const WorkShape& shape) override;
  std::size_t scratch_bytes(const WorkShape& shape) override;
  void prepare_thread() override {
    set_rounding_mode();
    device_.select();
  }

  std::unique_ptr<Weight> make_weight(std::int64_t outputs, std::int64_t inputs) override {
    return std::make_unique<CudaWeight>(device_, options_.precision, outputs, inputs);
  }
  std::size_t weight_bytes(std::int64_t outputs, std::int64_t inputs) const override {
    return CudaWeight::bytes(options_.precision, outputs, inputs);
  }

 private:
  std::unique_ptr<HostCopies> do_finish() override {
    device_.finish();
    return copies_.under_way();
  }
  void do_refresh(Weight& weight, const float* master) override {
    static_cast<CudaWeight&>(weight).refresh(device_, master);
    started("refresh");
  }
  void do_copy(Matrix to, ConstMatrix from) override {
    cuda::copy(to, from, stream());
    started("copy");
  }
  void do_copy_factor(FactorMatrix to, ConstMatrix from) override {
    cuda::copy_factor(to, from, stream());
    started("copy_factor");
  }
  void do_zero(void* data, std::size_t size_bytes) override {
    check(cudaMemsetAsync(data, 0, size_bytes, stream()), "zero");
  }
  void do_copy_out(float* to_host, ConstMatrix from) override;
  void do_copy_in(Matrix to, const float* from_host) override;
  void do_encode(std::byte* coded, ConstMatrix x, const Coding& coding) override;
  void do_decode(Matrix x, const std::byte* coded, const Coding& coding) override;

  void do_embed_forward(Matrix x, const std::int32_t* tokens, const float* token_table,
                        const float* position_table, std::int64_t context) override;
  void do_embed_backward(Matrix token_gradient, Matrix position_gradient, ConstMatrix dx,
                         const std::int32_t* tokens) override;

  void do_layer_norm_forward(FactorMatrix y, float* mean, float* rstd, ConstMatrix x,
                             const float* weight, const float* bias) override {
    cuda::layer_norm_forward(y, mean, rstd, x, weight, bias, stream());
    started("layer_norm_forward");
  }
  void do_layer_norm_backward(Matrix dx, FactorMatrix dx_factor, float* weight_gradient,
                              float* bias_gradient, Write write, ConstMatrix dy, ConstMatrix x,
                              const float* mean, const float* rstd, const float* weight) override {
    float* const room = partials_.take_array<float>(layer_norm_scratch_floats(x.rows, x.columns));
    cuda::layer_norm_backward(dx, dx_factor, weight_gradient, bias_gradient, write, dy, x, mean,
                              rstd, weight, room, stream());
    started("layer_norm_backward");
  }

  void do_linear_forward(Matrix y, ConstFactor x, const Weight& weight, const float* bias,
                         ConstMatrix residual) override {
    products_.multiply(y, {rounded_x(x)}, forward(weight), {bias, residual});
  }
  void do_linear_forward_factor(FactorMatrix y, ConstFactor x, const Weight& weight,
                                const float* bias) override;
  void do_linear_gelu_forward(Matrix pre, FactorMatrix activated, ConstFactor x,
                              const Weight& weight, const float* bias) override {
    products_.multiply(pre, {rounded_x(x)}, forward(weight), {bias, {}});
    cuda::bias_gelu(pre, activated, nullptr, stream());
    started("linear_gelu_forward");
  }
  void do_linear_backward_input(Matrix dx, ConstFactor dy, const Weight& weight) override {
    products_.multiply(dx, {rounded_dy(dy)}, backward(weight));
  }
  void do_linear_backward_input_factor(FactorMatrix dx, ConstFactor dy,
                                       const Weight& weight) override {
    products_.multiply(dx, {rounded_dy(dy)}, backward(weight));
  }
  void do_linear_gelu_backward_input(FactorMatrix dpre, ConstFactor dy, const Weight& weight,
                                     ConstMatrix pre) override;
  void do_linear_backward_weight(Matrix weight_gradient, float* bias_gradient, Write write,
                                 ConstFactor dy, ConstFactor x) override;

  void do_attention_forward(FactorMatrix out, float* log_sum, ConstFactor qkv,
                            const AttentionShape& shape) override {
    SWARMPI_CHECK(shape.head_width <= kWidestHead, "a head that there is room for");
    cuda::attention_forward(out, log_sum, qkv, shape, stream());
    started("attention_forward");
  }
  void do_attention_backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                             const float* log_sum, const AttentionShape& shape) override {
    SWARMPI_CHECK(shape.head_width <= kWidestHead, "a head that there is room for");
    auto* const delta = static_cast<float*>(partials_.take(attention_scratch_bytes(shape)));
    cuda::attention_backward(dqkv, dout, qkv, out, log_sum, delta, shape, stream());
    started("attention_backward");
  }

  void do_group_max_forward(Matrix y, ConstMatrix x) override {
    cuda::group_max_forward(y, x, stream());
    started("group_max_forward");
  }
  void do_group_max_backward(Matrix dx, ConstMatrix dy, ConstMatrix x) override {
    cuda::group_max_backward(dx, dy, x, stream());
    started("group_max_backward");
  }

  void do_head_loss(double& loss, ConstFactor x, const Weight& weight,
                    const std::int32_t* targets) override {
    head(loss, {}, {}, x, weight, targets);
  }
  void do_head_loss_backward(double& loss, Matrix dx, Matrix weight_gradient, ConstFactor x,
                             const Weight& weight, const std::int32_t* targets) override {
    head(loss, dx, weight_gradient, x, weight, targets);
  }

  void do_add_gradient(Contribution& did, std::int64_t* sums, Write write, ConstMatrix gradient,
                       std::int16_t exponent, int bits) override {
    std::uint32_t* const magnitude = expect_contribution(did, exponent);
    cuda::measure(magnitude, gradient, stream());
    cuda::add_measured(sums, write, gradient, magnitude, exponent, bits, stream());
    started("add_gradient");
  }
  void do_add_row_gradients(Contribution& did, std::int64_t* sums, ConstMatrix gradient,
                            const std::int32_t* rows, std::int16_t exponent, int bits) override;
  void do_round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                     double quantum_per_token) override;

  void do_update_adamw(std::uint64_t& hash, const UpdateBuffers& buffers,
                       const UpdateParameters& parameters) override;
  void do_update_lamb(std::uint64_t& hash, const UpdateBuffers& buffers,
                      const UpdateParameters& parameters) override;
  void do_hash_weights(std::uint64_t& hash, const float* weights, std::int64_t count,
                       std::int64_t first_index) override {
    cuda::hash_weights(device_.expect(hash), weights, count, first_index, stream());
    started("hash_weights");
  }
  void do_hash_copies(std::uint64_t& hash, Weight& weight) override;

  /// All of the head's work, a strip of rows after another; without gradients where dx is empty.
  void head(double& loss, Matrix dx, Matrix weight_gradient, ConstFactor x, const Weight& weight,
            const std::int32_t* targets);

  cudaStream_t stream() { return device_.compute(); }
  static void started(const char* operation) { check(cudaGetLastError(), operation); }
  Operand forward(const Weight& weight) const { return backward(weight).transposed(); }
  static Operand backward(const Weight& weight) {
    return {static_cast<const CudaWeight&>(weight).view()};
  }
  /// A factor as products of this precision take it.
  ConstFactor rounded(ConstFactor factor, DeviceScratch& room);
  ConstFactor rounded_x(ConstFactor x) { return rounded(x, x_copy_); }
  ConstFactor rounded_dy(ConstFactor dy) { return rounded(dy, dy_copy_); }
  /// Numbers of the host on the device, for the operation that comes next.
  const std::int32_t* on_device(const std::int32_t* numbers, std::int64_t count,
                                DeviceScratch& room);
  std::uint32_t* expect_contribution(Contribution& did, std::int16_t exponent) {
    return device_.expect<std::uint32_t>(1, [&did, exponent](const std::uint32_t* magnitude) {
      did = measured(*magnitude, exponent);
    });
  }

  struct Need {
    DeviceScratch& scratch;
    std::size_t bytes;
  };
  std::vector<Need> needs(const WorkShape& shape);

  BackendOptions options_;
  mutable Device device_;
  Products products_;
  DeviceScratch product_{device_.index()};  // in fp32, of what is rounded afterwards
  DeviceScratch x_copy_{device_.index()};
  DeviceScratch dy_copy_{device_.index()};
  DeviceScratch logits_{device_.index()};
  DeviceScratch logit_gradients_{device_.index()};
  DeviceScratch losses_{device_.index()};
  DeviceScratch partials_{device_.index()};
  DeviceScratch tokens_{device_.index()};
  DeviceScratch order_{device_.index()};
  DeviceScratch starts_{device_.index()};
  BoundaryCopies copies_{device_};
  std::vector<std::int32_t> order_on_host_, starts_on_host_;
};

std::shared_ptr<std::byte> CudaBackend::allocate_host(std::size_t size_bytes) {
  if (size_bytes < kLeastPinned) return Backend::allocate_host(size_bytes);
  device_.select();
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, std::max<std::size_t>(size_bytes, 1), cudaHostAllocDefault),
        "taking host memory");
  std::memset(memory, 0, size_bytes);
  return {static_cast<std::byte*>(memory), [](std::byte* bytes) { cudaFreeHost(bytes); }};
}

std::uint64_t CudaBackend::state_hash(const float* weights, const float* moment1,
                                      const float* moment2, std::int64_t count,
                                      std::int64_t first_index) const {
  return device_.make_word([&](cudaStream_t stream, std::uint64_t* word) {
    if (moment1 == nullptr) {
      cuda::hash_weights(word, weights, count, first_index, stream);
    } else {
      cuda::hash_state(word, weights, moment1, moment2, count, first_index, stream);
    }
  });
}

std::vector<CudaBackend::Need> CudaBackend::needs(const WorkShape& s) {
  const bool rounds = options_.precision == Precision::bf16;
  const std::int64_t rows = s.sequences * s.context;
  const std::int64_t widest = std::max(3 * s.width, s.hidden);
  const std::int64_t stride = padded_bf16(widest);
  const std::int64_t logits = head_rows(rows, s.vocabulary) * padded_bf16(s.vocabulary);
  const std::int64_t largest = std::max({widest, s.vocabulary, s.context}) * s.width;
  const AttentionShape attention{s.sequences, s.context, s.heads, s.width / s.heads};
  const std::size_t partials =
      std::max({bytes_of(layer_norm_scratch_floats(rows, s.width), sizeof(float)),
                bytes_of(column_sums_scratch_floats(rows, widest), sizeof(float)),
                attention_scratch_bytes(attention), lamb_scratch_bytes(largest)});
  const std::size_t tokens = bytes_of(std::max(rows, s.vocabulary) + 1, sizeof(std::int32_t));
  return {{product_, rounds ? bytes_of(rows * stride, sizeof(float)) : 0},
          {logits_, bytes_of(logits, sizeof(float))},
          {logit_gradients_, rounds ? bytes_of(logits, sizeof(std::uint16_t)) : 0},
          {losses_, bytes_of(rows, sizeof(double))},
          {partials_, partials},
          {tokens_, tokens},
          {order_, tokens},
          {starts_, tokens}};
}

void CudaBackend::reserve(const WorkShape& shape) {
  for (const Need& need : needs(shape)) need.scratch.take(need.bytes);
  copies_.reserve(boundary_bytes(shape));
}

std::size_t CudaBackend::scratch_bytes(const WorkShape& shape) {
  std::size_t sum = BoundaryCopies::kRooms * boundary_bytes(shape);
  for (const Need& need : needs(shape)) sum += need.bytes;
  return sum;
}

ConstFactor CudaBackend::rounded(ConstFactor factor, DeviceScratch& room) {
  if (factor.element == factor_element()) return factor;
  const std::int64_t stride = padded_bf16(factor.columns);
  const FactorMatrix copied(room.take_array<std::uint16_t>(factor.rows * stride), factor.rows,
                            factor.columns, stride, Element::bf16);
  cuda::copy_factor(copied, factor.matrix(), stream());
  started("rounding a factor");
  return copied;
}

const std::int32_t* CudaBackend::on_device(const std::int32_t* numbers, std::int64_t count,
                                           DeviceScratch& room) {
  auto* const to = room.take_array<std::int32_t>(count);
  // From memory that the host may write to at once: the call returns when it has read it.
  device_.compute();
  device_.upload(to, numbers, bytes_of(count, sizeof(std::int32_t)));
  return to;
}

// ---- Boundaries

void CudaBackend::do_copy_out(float* to_host, ConstMatrix from) {
  const std::size_t row = bytes_of(from.columns, sizeof(float));
  copies_.send(to_host, bytes_of(from.rows, row), [&](std::byte* room, cudaStream_t stream) {
    check(cudaMemcpy2DAsync(room, row, from.data, bytes_of(from.stride, sizeof(float)), row,
                            static_cast<std::size_t>(from.rows), cudaMemcpyDeviceToDevice, stream),
          "copy_out");
  });
}

void CudaBackend::do_copy_in(Matrix to, const float* from_host) {
  const std::size_t row = bytes_of(to.columns, sizeof(float));
  copies_.bring(from_host, bytes_of(to.rows, row), [&](const std::byte* room, cudaStream_t stream) {
    check(cudaMemcpy2DAsync(to.data, bytes_of(to.stride, sizeof(float)), room, row, row,
                            static_cast<std::size_t>(to.rows), cudaMemcpyDeviceToDevice, stream),
          "copy_in");
  });
}

void CudaBackend::do_encode(std::byte* coded, ConstMatrix x, const Coding& coding) {
  const std::size_t size = coded_bytes(coding.codec, x.rows * x.columns);
  copies_.send(coded, size, [&](std::byte* room, cudaStream_t stream) {
    cuda::encode(room, x, coding, stream);
    started("encode");
  });
}

void CudaBackend::do_decode(Matrix x, const std::byte* coded, const Coding& coding) {
  const std::size_t size = coded_bytes(coding.codec, x.rows * x.columns);
  copies_.bring(coded, size, [&](const std::byte* room, cudaStream_t stream) {
    cuda::decode(x, room, coding, stream);
    started("decode");
  });
}

// ---- Embedding

void CudaBackend::do_embed_forward(Matrix x, const std::int32_t* tokens, const float* token_table,
                                   const float* position_table, std::int64_t context) {
  cuda::embed_forward(x, on_device(tokens, x.rows, tokens_), token_table, position_table, context,
                      stream());
  started("embed_forward");
}

void CudaBackend::do_embed_backward(Matrix token_gradient, Matrix position_gradient, ConstMatrix dx,
                                    const std::int32_t* tokens) {
  const std::int64_t rows = token_gradient.rows;
  order_on_host_.resize(static_cast<std::size_t>(dx.rows));
  starts_on_host_.resize(static_cast<std::size_t>(rows + 1));
  sort_by_token(order_on_host_.data(), starts_on_host_.data(), tokens, dx.rows, rows);
  cuda::embed_backward(token_gradient, position_gradient, dx, on_device(tokens, dx.rows, tokens_),
                       on_device(order_on_host_.data(), dx.rows, order_),
                       on_device(starts_on_host_.data(), rows + 1, starts_), stream());
  started("embed_backward");
}

// ---- Linear layers

void CudaBackend::do_linear_forward_factor(FactorMatrix y, ConstFactor x, const Weight& weight,
                                           const float* bias) {
  const Operand left{rounded_x(x)};
  if (bias == nullptr) return products_.multiply(y, left, forward(weight));
  if (products_.multiply_with_bias(y, left, forward(weight), bias)) return;
  const std::int64_t stride = row_stride(y.columns);
  const Matrix product(product_.take_array<float>(y.rows * stride), y.rows, y.columns, stride);
  products_.multiply(product, left, forward(weight));
  cuda::bias_to_factor(y, product, bias, stream());
  started("linear_forward_factor");
}

void CudaBackend::do_linear_gelu_backward_input(FactorMatrix dpre, ConstFactor dy,
                                                const Weight& weight, ConstMatrix pre) {
  const std::int64_t stride = row_stride(dpre.columns);
  const Matrix product =
      dpre.element == Element::fp32
          ? dpre.matrix()
          : Matrix(product_.take_array<float>(dpre.rows * stride), dpre.rows, dpre.columns, stride);
  products_.multiply(product, {rounded_dy(dy)}, backward(weight));
  cuda::scale_by_gelu_slope(dpre, product, pre, stream());
  started("linear_gelu_backward_input");
}

void CudaBackend::do_linear_backward_weight(Matrix weight_gradient, float* bias_gradient,
                                            Write write, ConstFactor dy, ConstFactor x) {
  const ConstMatrix before = write == Write::add ? ConstMatrix(weight_gradient) : ConstMatrix();
  products_.multiply(weight_gradient, Operand{rounded_dy(dy)}.transposed(), {rounded_x(x)},
                     {nullptr, before});
  if (bias_gradient == nullptr) return;
  float* const room = partials_.take_array<float>(column_sums_scratch_floats(dy.rows, dy.columns));
  cuda::column_sums(bias_gradient, write, dy, room, stream());
  started("linear_backward_weight");
}

// ---- Head

void CudaBackend::head(double& loss, Matrix dx, Matrix weight_gradient, ConstFactor x,
                       const Weight& weight, const std::int32_t* targets) {
  const ConstFactor factor = rounded_x(x);
  const std::int64_t vocabulary = static_cast<const CudaWeight&>(weight).outputs();
  const std::int64_t strip = head_rows(x.rows, vocabulary);
  const std::int64_t stride = padded_bf16(vocabulary);
  const std::int32_t* const wanted = on_device(targets, x.rows, tokens_);
  float* const logits_room = logits_.take_array<float>(strip * stride);
  auto* const losses = losses_.take_array<double>(x.rows);
  for (std::int64_t first = 0; first < x.rows; first += strip) {
    const std::int64_t rows = std::min(strip, x.rows - first);
    const ConstFactor inputs = rows_of(factor, first, rows);
    const Matrix logits(logits_room, rows, vocabulary, stride);
    products_.multiply(logits, {inputs}, forward(weight));
    FactorMatrix slopes;
    if (!dx.empty()) {
      slopes = factor_element() == Element::fp32
                   ? FactorMatrix(logits)
                   : FactorMatrix(logit_gradients_.take_array<std::uint16_t>(strip * stride), rows,
                                  vocabulary, stride, Element::bf16);
    }
    cuda::cross_entropy(losses + first, slopes, logits, wanted + first, stream());
    started("head_loss");
    if (dx.empty()) continue;
    products_.multiply(Matrix(dx.row(first), rows, dx.columns, dx.stride), {slopes},
                       backward(weight));
    const ConstMatrix before = first > 0 ? ConstMatrix(weight_gradient) : ConstMatrix();
    products_.multiply(weight_gradient, Operand{slopes}.transposed(), {inputs}, {nullptr, before});
  }
  cuda::sum_losses(device_.expect(loss), losses, x.rows, false, stream());
  started("head_loss");
}

// ---- Order-free sums, updates, hashes

void CudaBackend::do_add_row_gradients(Contribution& did, std::int64_t* sums, ConstMatrix gradient,
                                       const std::int32_t* rows, std::int16_t exponent, int bits) {
  std::uint32_t* const magnitude = expect_contribution(did, exponent);
  cuda::measure(magnitude, gradient, stream());
  cuda::add_measured_rows(sums, gradient, on_device(rows, gradient.rows, tokens_), magnitude,
                          exponent, bits, stream());
  started("add_row_gradients");
}

void CudaBackend::do_round_sums(float* gradient, double* squares, const std::int64_t* sums,
                                std::int64_t count, double quantum_per_token) {
  const std::int64_t blocks = (count + kSumBlock - 1) / kSumBlock;
  double* const room = device_.expect<double>(
      blocks, [squares, blocks](const double* made) { std::copy_n(made, blocks, squares); });
  cuda::round_sums(gradient, room, sums, count, quantum_per_token, stream());
  started("round_sums");
}

void CudaBackend::do_update_adamw(std::uint64_t& hash, const UpdateBuffers& buffers,
                                  const UpdateParameters& parameters) {
  std::uint64_t* const before = buffers.hash_before;
  // Together: a place of its own for each could be made by finishing in between.
  std::uint64_t* const words =
      device_.expect<std::uint64_t>(2, [&hash, before](const std::uint64_t* made) {
        hash = made[0];
        if (before != nullptr) *before = made[1];
      });
  cuda::update_adamw(buffers, parameters, words, before == nullptr ? nullptr : words + 1, stream());
  started("update_adamw");
}

void CudaBackend::do_update_lamb(std::uint64_t& hash, const UpdateBuffers& buffers,
                                 const UpdateParameters& parameters) {
  float* const ratio = buffers.trust_ratio;
  struct Made {
    std::uint64_t hash;
    float ratio;
  };
  Made* const room = device_.expect<Made>(1, [&hash, ratio](const Made* made) {
    hash = made->hash;
    if (ratio != nullptr) *ratio = made->ratio;
  });
  cuda::update_lamb(buffers, parameters, &room->hash, ratio == nullptr ? nullptr : &room->ratio,
                    partials_.take(lamb_scratch_bytes(buffers.count)), stream());
  started("update_lamb");
}

void CudaBackend::do_hash_copies(std::uint64_t& hash, Weight& weight) {
  const std::vector<std::span<std::byte>> copies = weight.copies();
  hash = 0;
  if (copies.empty()) return;
  cuda::hash_bytes(device_.expect(hash), copies.front().data(), copies.front().size(), 0, false,
                   stream());
  started("hash_copies");
}

}  // namespace
}  // namespace cuda

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options) {
  return std::make_unique<cuda::CudaBackend>(options);
}

std::string cuda_problem() {
  int devices = 0;
  const auto unusable = [](cudaError_t status) {
    return std::string("no GPU can be used here: ") + cudaGetErrorString(status);
  };
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess) {
    return unusable(status);
  }
  if (devices == 0) return "no GPU is visible here: see CUDA_VISIBLE_DEVICES";
  const int device = cuda::device_of(cuda::local_rank(), devices);
  // Another may hold it for itself, and not every GPU runs what this program was compiled for.
  cudaError_t status = cudaSetDevice(device);
  if (status == cudaSuccess) status = cudaFree(nullptr);
  if (status == cudaSuccess) status = cuda::find_kernel();
  if (status != cudaSuccess) {
    cudaGetLastError();  // is told
    return unusable(status) + "; see CMAKE_CUDA_ARCHITECTURES";
  }
  int shared_by_mps = 0;
#if CUDART_VERSION >= 13000
  cudaDeviceGetAttribute(&shared_by_mps, cudaDevAttrMpsEnabled, device);
#endif
  if (shared_by_mps != 0) {
    return "the GPU is served by MPS, where the death of one rank can end the others: stop "
           "nvidia-cuda-mps-control";
  }
  return cuda::cublas_lt().problem;
}

std::string cuda_description() {
  int devices = 0, driver = 0;
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceCount(&devices), "counting the devices");
  const int index = cuda::device_of(cuda::local_rank(), devices);
  cuda::check(cudaGetDeviceProperties(&properties, index), "asking for the device's properties");
  cuda::check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  const auto version = [](int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  };
  constexpr double kGiB = 1 << 30;
  const auto gigabytes = static_cast<int>(static_cast<double>(properties.totalGlobalMem) / kGiB);
  return cuda::description(properties) + ", " + std::to_string(gigabytes) +
         " GiB, driver for CUDA " + version(driver) + ", CUDA " + version(CUDART_VERSION) +
         ", cuBLASLt " + std::to_string(cuda::cublas_lt().version());
}

int ranks_on_cuda_device() { return cuda::ranks_on_device(cuda_devices()); }

int cuda_devices() {
  int devices = 0;
  cuda::check(cudaGetDeviceCount(&devices), "counting the devices");
  return devices;
}

}  // namespace swarmpi::kernels
