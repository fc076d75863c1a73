#pragma once
// A backend that forwards every call to another one and adds up the time of each operation.

#include <map>
#include <string>
#include <vector>

#include "kernels/backend.hpp"

namespace swarmpi {

class TimedBackend final : public kernels::Backend {
 public:
  struct Use {
    std::string name;
    std::int64_t calls = 0;
    double time_s = 0;  ///< by bench_clock_s(threads)
  };

  /// `inner` must outlive this.
  TimedBackend(kernels::Backend& inner, std::int64_t threads) : inner_(inner), threads_(threads) {}

  /// What was called since the last clear(), the longest first.
  std::vector<Use> uses() const;
  void clear() { uses_.clear(); }

  std::string name() const override { return inner_.name(); }
  kernels::Precision precision() const override { return inner_.precision(); }
  std::unique_ptr<kernels::Memory> allocate(std::size_t size_bytes) override;
  std::int64_t row_stride(std::int64_t columns) const override;
  kernels::Element factor_element() const override { return inner_.factor_element(); }
  std::int64_t factor_stride(std::int64_t columns) const override {
    return inner_.factor_stride(columns);
  }
  void reserve(const kernels::WorkShape& shape) override { inner_.reserve(shape); }
  std::size_t scratch_bytes(const kernels::WorkShape& shape) override {
    return inner_.scratch_bytes(shape);
  }
  void prepare_thread() override { inner_.prepare_thread(); }
  std::unique_ptr<kernels::Weight> make_weight(std::int64_t outputs, std::int64_t inputs) override;
  void refresh(kernels::Weight& weight, const float* master) override;
  std::size_t weight_bytes(std::int64_t outputs, std::int64_t inputs) const override {
    return inner_.weight_bytes(outputs, inputs);
  }
  void copy(kernels::Matrix to, kernels::ConstMatrix from) override;
  void copy_factor(kernels::FactorMatrix to, kernels::ConstMatrix from) override;
  void zero(void* data, std::size_t size_bytes) override;
  void embed_forward(kernels::Matrix x, const std::int32_t* tokens, const float* token_table,
                     const float* position_table, std::int64_t context) override;
  void embed_backward(kernels::Matrix token_gradient, kernels::Matrix position_gradient,
                      kernels::ConstMatrix dx, const std::int32_t* tokens) override;
  void layer_norm_forward(kernels::FactorMatrix y, float* mean, float* rstd, kernels::ConstMatrix x,
                          const float* weight, const float* bias) override;
  void layer_norm_backward(kernels::Matrix dx, kernels::FactorMatrix dx_factor,
                           float* weight_gradient, float* bias_gradient, kernels::Write write,
                           kernels::ConstMatrix dy, kernels::ConstMatrix x, const float* mean,
                           const float* rstd, const float* weight) override;
  void linear_forward(kernels::Matrix y, kernels::ConstFactor x, const kernels::Weight& weight,
                      const float* bias, kernels::ConstMatrix residual) override;
  void linear_forward_factor(kernels::FactorMatrix y, kernels::ConstFactor x,
                             const kernels::Weight& weight, const float* bias) override;
  void linear_gelu_forward(kernels::Matrix pre, kernels::FactorMatrix activated,
                           kernels::ConstFactor x, const kernels::Weight& weight,
                           const float* bias) override;
  void linear_backward_input(kernels::Matrix dx, kernels::ConstFactor dy,
                             const kernels::Weight& weight) override;
  void linear_backward_input_factor(kernels::FactorMatrix dx, kernels::ConstFactor dy,
                                    const kernels::Weight& weight) override;
  void linear_gelu_backward_input(kernels::FactorMatrix dpre, kernels::ConstFactor dy,
                                  const kernels::Weight& weight, kernels::ConstMatrix pre) override;
  void linear_backward_weight(kernels::Matrix weight_gradient, float* bias_gradient,
                              kernels::Write write, kernels::ConstFactor dy,
                              kernels::ConstFactor x) override;
  void attention_forward(kernels::FactorMatrix out, float* log_sum, kernels::ConstFactor qkv,
                         const kernels::AttentionShape& shape) override;
  void attention_backward(kernels::FactorMatrix dqkv, kernels::ConstFactor dout,
                          kernels::ConstFactor qkv, kernels::ConstFactor out, const float* log_sum,
                          const kernels::AttentionShape& shape) override;
  double head_loss(kernels::ConstFactor x, const kernels::Weight& weight,
                   const std::int32_t* targets) override;
  double head_loss_backward(kernels::Matrix dx, kernels::Matrix weight_gradient,
                            kernels::ConstFactor x, const kernels::Weight& weight,
                            const std::int32_t* targets) override;
  kernels::Contribution add_gradient(std::int64_t* sums, kernels::Write write,
                                     kernels::ConstMatrix gradient, std::int16_t exponent,
                                     int bits) override;
  std::int64_t weight_gradient_rows(std::int64_t rows) const override {
    return inner_.weight_gradient_rows(rows);
  }
  kernels::Contribution add_row_gradients(std::int64_t* sums, kernels::ConstMatrix gradient,
                                          const std::int32_t* rows, std::int16_t exponent,
                                          int bits) override;
  kernels::Contribution add_weight_gradient(std::int64_t* sums, kernels::Write write,
                                            kernels::Matrix room, float* bias_gradient,
                                            kernels::ConstFactor dy, kernels::ConstFactor x,
                                            std::int16_t exponent, int bits) override;
  void round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                  double quantum_per_token) override;
  std::uint64_t update_adamw(const kernels::UpdateBuffers& buffers,
                             const kernels::UpdateParameters& parameters) override;
  std::uint64_t update_lamb(const kernels::UpdateBuffers& buffers,
                            const kernels::UpdateParameters& parameters) override;

 private:
  template <class Call>
  auto timed(const char* name, Call call);

  kernels::Backend& inner_;
  std::int64_t threads_;
  std::map<std::string, Use, std::less<>> uses_;
};

}  // namespace swarmpi
