#pragma once
// The reference backend: serial loops, in memory of the host.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/reference/attention.hpp"
#include "kernels/reference/codecs.hpp"
#include "kernels/reference/embedding.hpp"
#include "kernels/reference/group_max.hpp"
#include "kernels/reference/head.hpp"
#include "kernels/reference/layer_norm.hpp"
#include "kernels/reference/linear.hpp"
#include "kernels/reference/optimizer.hpp"
#include "kernels/reference/order_free_sums.hpp"
#include "kernels/rounding_mode.hpp"
#include "kernels/state_hash.hpp"

namespace swarmpi::kernels::reference {

class ReferenceMemory final : public Memory {
 public:
  explicit ReferenceMemory(std::size_t size_bytes) : size_bytes_(size_bytes) {
    const std::size_t whole = (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
    data_ = ::operator new (std::max(whole, kAlignment), std::align_val_t{kAlignment});
    std::memset(data_, 0, whole);
  }
  ~ReferenceMemory() override { ::operator delete (data_, std::align_val_t{kAlignment}); }
  ReferenceMemory(const ReferenceMemory&) = delete;
  ReferenceMemory& operator=(const ReferenceMemory&) = delete;

  void* data() override { return data_; }
  std::size_t size_bytes() const override { return size_bytes_; }

 private:
  static constexpr std::size_t kAlignment = 64;
  void* data_ = nullptr;
  std::size_t size_bytes_;
};

/// A copy of the master: products round it to bf16 themselves.
struct ReferenceWeight final : Weight {
  ReferenceWeight(std::unique_ptr<Memory> its_memory, std::int64_t outputs, std::int64_t inputs)
      : memory(std::move(its_memory)), view(memory->as<float>(), outputs, inputs) {}
  std::vector<std::span<std::byte>> copies() override {
    return {{memory->as<std::byte>(), memory->size_bytes()}};
  }
  std::unique_ptr<Memory> memory;
  Matrix view;  // (N, K)
};

/// Factors are kept in fp32 here: products round what they multiply.
template <class Void>
auto fp32(const FactorView<Void>& factor) {
  return factor.matrix();
}

inline ConstMatrix matrix_of(const Weight& weight) {
  return static_cast<const ReferenceWeight&>(weight).view;
}

class ReferenceBackend : public Backend {
 public:
  explicit ReferenceBackend(Precision precision) : precision_(precision) {}

  std::string name() const override { return "reference"; }
  Precision precision() const override { return precision_; }
  std::unique_ptr<Memory> allocate(std::size_t size_bytes) override {
    return std::make_unique<ReferenceMemory>(size_bytes);
  }
  void upload(void* to, const void* from_host, std::size_t size_bytes) override {
    if (size_bytes > 0 && to != from_host) std::memcpy(to, from_host, size_bytes);
  }
  void download(void* to_host, const void* from, std::size_t size_bytes) const override {
    if (size_bytes > 0) std::memcpy(to_host, from, size_bytes);
  }
  const void* host_view(const void* from, std::size_t /*size_bytes*/,
                        void* /*room*/) const override {
    return from;
  }
  void* host_place(void* to, void* /*room*/) const override { return to; }
  std::uint64_t state_hash(const float* weights, const float* moment1, const float* moment2,
                           std::int64_t count, std::int64_t first_index) const override {
    if (moment1 == nullptr) return hash_of_weights(weights, count, first_index);
    return hash_of_state(weights, moment1, moment2, count, first_index);
  }
  std::unique_ptr<HostCopies> do_finish() override { return nullptr; }
  std::int64_t row_stride(std::int64_t columns) const override { return columns; }
  /// Products round what they multiply.
  Element factor_element() const override { return Element::fp32; }
  std::int64_t factor_stride(std::int64_t columns) const override { return columns; }
  void reserve(const WorkShape& shape) override { scratch(scratch_floats(shape)); }
  std::size_t scratch_bytes(const WorkShape& shape) override {
    return static_cast<std::size_t>(scratch_floats(shape)) * sizeof(float);
  }
  void prepare_thread() override { set_rounding_mode(); }

  std::unique_ptr<Weight> make_weight(std::int64_t outputs, std::int64_t inputs) override {
    return std::make_unique<ReferenceWeight>(allocate(weight_bytes(outputs, inputs)), outputs,
                                             inputs);
  }
  void do_refresh(Weight& weight, const float* master) override {
    const Matrix& view = static_cast<ReferenceWeight&>(weight).view;
    std::copy_n(master, view.rows * view.columns, view.data);
  }
  std::size_t weight_bytes(std::int64_t outputs, std::int64_t inputs) const override {
    return static_cast<std::size_t>(outputs * inputs) * sizeof(float);
  }

  void do_copy(Matrix to, ConstMatrix from) override {
    for (std::int64_t r = 0; r < to.rows; ++r) std::copy_n(from.row(r), to.columns, to.row(r));
  }
  void do_copy_factor(FactorMatrix to, ConstMatrix from) override { do_copy(fp32(to), from); }
  void do_zero(void* data, std::size_t size_bytes) override { std::memset(data, 0, size_bytes); }
  void do_copy_out(float* to_host, ConstMatrix from) override {
    do_copy({to_host, from.rows, from.columns}, from);
  }
  void do_copy_in(Matrix to, const float* from_host) override {
    do_copy(to, {from_host, to.rows, to.columns});
  }

  void do_encode(std::byte* coded, ConstMatrix x, const Coding& coding) override {
    reference::encode(coded, x, coding);
  }
  void do_decode(Matrix x, const std::byte* coded, const Coding& coding) override {
    reference::decode(x, coded, coding);
  }

  void do_group_max_forward(Matrix y, ConstMatrix x) override {
    reference::group_max_forward(y, x);
  }
  void do_group_max_backward(Matrix dx, ConstMatrix dy, ConstMatrix x) override {
    reference::group_max_backward(dx, dy, x);
  }

  void do_embed_forward(Matrix x, const std::int32_t* tokens, const float* token_table,
                        const float* position_table, std::int64_t context) override {
    reference::embed_forward(x, tokens, token_table, position_table, context);
  }
  void do_embed_backward(Matrix token_gradient, Matrix position_gradient, ConstMatrix dx,
                         const std::int32_t* tokens) override {
    reference::embed_backward(token_gradient, position_gradient, dx, tokens);
  }

  void do_layer_norm_forward(FactorMatrix y, float* mean, float* rstd, ConstMatrix x,
                             const float* weight, const float* bias) override {
    reference::layer_norm_forward(fp32(y), mean, rstd, x, weight, bias);
  }
  void do_layer_norm_backward(Matrix dx, FactorMatrix dx_factor, float* weight_gradient,
                              float* bias_gradient, Write write, ConstMatrix dy, ConstMatrix x,
                              const float* mean, const float* rstd, const float* weight) override {
    reference::layer_norm_backward(dx, weight_gradient, bias_gradient, write, dy, x, mean, rstd,
                                   weight);
    if (!dx_factor.empty()) do_copy_factor(dx_factor, dx);
  }

  void do_linear_forward(Matrix y, ConstFactor x, const Weight& weight, const float* bias,
                         ConstMatrix residual) override {
    reference::linear_forward(y, fp32(x), matrix_of(weight), bias, residual, precision_);
  }
  void do_linear_forward_factor(FactorMatrix y, ConstFactor x, const Weight& weight,
                                const float* bias) override {
    do_linear_forward(fp32(y), x, weight, bias, {});
  }
  void do_linear_gelu_forward(Matrix pre, FactorMatrix activated, ConstFactor x,
                              const Weight& weight, const float* bias) override {
    reference::linear_gelu_forward(pre, fp32(activated), fp32(x), matrix_of(weight), bias,
                                   precision_);
  }
  void do_linear_backward_input(Matrix dx, ConstFactor dy, const Weight& weight) override {
    reference::linear_backward_input(dx, fp32(dy), matrix_of(weight), precision_);
  }
  void do_linear_backward_input_factor(FactorMatrix dx, ConstFactor dy,
                                       const Weight& weight) override {
    do_linear_backward_input(fp32(dx), dy, weight);
  }
  void do_linear_gelu_backward_input(FactorMatrix dpre, ConstFactor dy, const Weight& weight,
                                     ConstMatrix pre) override {
    reference::linear_gelu_backward_input(fp32(dpre), fp32(dy), matrix_of(weight), pre, precision_);
  }
  void do_linear_backward_weight(Matrix weight_gradient, float* bias_gradient, Write write,
                                 ConstFactor dy, ConstFactor x) override {
    reference::linear_backward_weight(weight_gradient, bias_gradient, write, fp32(dy), fp32(x),
                                      precision_);
  }

  void do_attention_forward(FactorMatrix out, float* log_sum, ConstFactor qkv,
                            const AttentionShape& shape) override {
    reference::attention_forward(fp32(out), log_sum, fp32(qkv), shape, precision_,
                                 scratch(reference::attention_scratch(shape.context)));
  }
  void do_attention_backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                             const float* log_sum, const AttentionShape& shape) override {
    reference::attention_backward(fp32(dqkv), fp32(dout), fp32(qkv), fp32(out), log_sum, shape,
                                  precision_, scratch(reference::attention_scratch(shape.context)));
  }

  void do_head_loss(double& loss, ConstFactor x, const Weight& weight,
                    const std::int32_t* targets) override {
    const ConstMatrix w = matrix_of(weight);
    loss = reference::head_loss(fp32(x), w, targets, precision_,
                                scratch(reference::head_scratch(w.rows)));
  }
  void do_head_loss_backward(double& loss, Matrix dx, Matrix weight_gradient, ConstFactor x,
                             const Weight& weight, const std::int32_t* targets) override {
    const ConstMatrix w = matrix_of(weight);
    loss = reference::head_loss_backward(dx, weight_gradient, fp32(x), w, targets, precision_,
                                         scratch(reference::head_scratch(w.rows)));
  }

  void do_add_gradient(Contribution& did, std::int64_t* sums, Write write, ConstMatrix gradient,
                       std::int16_t exponent, int bits) override {
    did = reference::add_gradient(sums, write, gradient, exponent, bits);
  }
  void do_add_row_gradients(Contribution& did, std::int64_t* sums, ConstMatrix gradient,
                            const std::int32_t* rows, std::int16_t exponent, int bits) override {
    did = reference::add_row_gradients(sums, gradient, rows, exponent, bits);
  }
  void do_round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                     double quantum_per_token) override {
    reference::round_sums(gradient, squares, sums, count, quantum_per_token);
  }
  void do_update_adamw(std::uint64_t& hash, const UpdateBuffers& buffers,
                       const UpdateParameters& parameters) override {
    hash = reference::update_adamw(buffers, parameters);
  }
  void do_update_lamb(std::uint64_t& hash, const UpdateBuffers& buffers,
                      const UpdateParameters& parameters) override {
    hash = reference::update_lamb(buffers, parameters);
  }
  void do_hash_weights(std::uint64_t& hash, const float* weights, std::int64_t count,
                       std::int64_t first_index) override {
    hash = hash_of_weights(weights, count, first_index);
  }
  void do_hash_copies(std::uint64_t& hash, Weight& weight) override {
    const auto bytes = weight.copies().front();
    hash = hash_of_bytes(bytes.data(), bytes.size(), 0);
  }

 private:
  static std::int64_t scratch_floats(const WorkShape& shape) {
    return std::max(reference::attention_scratch(shape.context),
                    reference::head_scratch(shape.vocabulary));
  }
  /// Grows only for shapes beyond what was reserved.
  float* scratch(std::int64_t count) {
    const auto needed = static_cast<std::size_t>(count);
    if (scratch_.size() < needed) scratch_.resize(needed);
    return scratch_.data();
  }

  Precision precision_;
  std::vector<float> scratch_;
};

}  // namespace swarmpi::kernels::reference
