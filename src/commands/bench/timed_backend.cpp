#include "commands/bench/timed_backend.hpp"

#include <algorithm>

#include "commands/bench/bench.hpp"

namespace swarmpi {

using namespace kernels;

namespace {

// Adds the time from its making to its end.
class Timing {
 public:
  Timing(TimedBackend::Use& use, std::int64_t threads)
      : use_(use), threads_(threads), start_s_(bench_clock_s(threads)) {}
  Timing(const Timing&) = delete;
  Timing& operator=(const Timing&) = delete;
  ~Timing() {
    use_.time_s += bench_clock_s(threads_) - start_s_;
    ++use_.calls;
  }

 private:
  TimedBackend::Use& use_;
  std::int64_t threads_;
  double start_s_;
};

}  // namespace

template <class Call>
auto TimedBackend::timed(const char* name, Call call) {
  const auto found = uses_.try_emplace(name, Use{name, 0, 0}).first;
  const Timing timing(found->second, threads_);
  return call();
}

std::vector<TimedBackend::Use> TimedBackend::uses() const {
  std::vector<Use> list;
  for (const auto& [name, use] : uses_) list.push_back(use);
  std::sort(list.begin(), list.end(),
            [](const Use& a, const Use& b) { return a.time_s > b.time_s; });
  return list;
}

std::unique_ptr<Memory> TimedBackend::allocate(std::size_t size_bytes) {
  return inner_.allocate(size_bytes);
}
std::int64_t TimedBackend::row_stride(std::int64_t columns) const {
  return inner_.row_stride(columns);
}
std::unique_ptr<Weight> TimedBackend::make_weight(std::int64_t outputs, std::int64_t inputs) {
  return inner_.make_weight(outputs, inputs);
}

void TimedBackend::refresh(Weight& weight, const float* master) {
  timed("refresh", [&] { inner_.refresh(weight, master); });
}
void TimedBackend::copy(Matrix to, ConstMatrix from) {
  timed("copy", [&] { inner_.copy(to, from); });
}
void TimedBackend::copy_factor(FactorMatrix to, ConstMatrix from) {
  timed("copy_factor", [&] { inner_.copy_factor(to, from); });
}
void TimedBackend::zero(void* data, std::size_t size_bytes) {
  timed("zero", [&] { inner_.zero(data, size_bytes); });
}
void TimedBackend::embed_forward(Matrix x, const std::int32_t* tokens, const float* token_table,
                                 const float* position_table, std::int64_t context) {
  timed("embed_forward",
        [&] { inner_.embed_forward(x, tokens, token_table, position_table, context); });
}
void TimedBackend::embed_backward(Matrix token_gradient, Matrix position_gradient, ConstMatrix dx,
                                  const std::int32_t* tokens) {
  timed("embed_backward",
        [&] { inner_.embed_backward(token_gradient, position_gradient, dx, tokens); });
}
void TimedBackend::layer_norm_forward(FactorMatrix y, float* mean, float* rstd, ConstMatrix x,
                                      const float* weight, const float* bias) {
  timed("layer_norm_forward", [&] { inner_.layer_norm_forward(y, mean, rstd, x, weight, bias); });
}
void TimedBackend::layer_norm_backward(Matrix dx, FactorMatrix dx_factor, float* weight_gradient,
                                       float* bias_gradient, Write write, ConstMatrix dy,
                                       ConstMatrix x, const float* mean, const float* rstd,
                                       const float* weight) {
  timed("layer_norm_backward", [&] {
    inner_.layer_norm_backward(dx, dx_factor, weight_gradient, bias_gradient, write, dy, x, mean,
                               rstd, weight);
  });
}
void TimedBackend::linear_forward(Matrix y, ConstFactor x, const Weight& weight, const float* bias,
                                  ConstMatrix residual) {
  timed("linear_forward", [&] { inner_.linear_forward(y, x, weight, bias, residual); });
}
void TimedBackend::linear_forward_factor(FactorMatrix y, ConstFactor x, const Weight& weight,
                                         const float* bias) {
  timed("linear_forward_factor", [&] { inner_.linear_forward_factor(y, x, weight, bias); });
}
void TimedBackend::linear_gelu_forward(Matrix pre, FactorMatrix activated, ConstFactor x,
                                       const Weight& weight, const float* bias) {
  timed("linear_gelu_forward",
        [&] { inner_.linear_gelu_forward(pre, activated, x, weight, bias); });
}
void TimedBackend::linear_backward_input(Matrix dx, ConstFactor dy, const Weight& weight) {
  timed("linear_backward_input", [&] { inner_.linear_backward_input(dx, dy, weight); });
}
void TimedBackend::linear_backward_input_factor(FactorMatrix dx, ConstFactor dy,
                                                const Weight& weight) {
  timed("linear_backward_input_factor",
        [&] { inner_.linear_backward_input_factor(dx, dy, weight); });
}
void TimedBackend::linear_gelu_backward_input(FactorMatrix dpre, ConstFactor dy,
                                              const Weight& weight, ConstMatrix pre) {
  timed("linear_gelu_backward_input",
        [&] { inner_.linear_gelu_backward_input(dpre, dy, weight, pre); });
}
void TimedBackend::linear_backward_weight(Matrix weight_gradient, float* bias_gradient, Write write,
                                          ConstFactor dy, ConstFactor x) {
  timed("linear_backward_weight",
        [&] { inner_.linear_backward_weight(weight_gradient, bias_gradient, write, dy, x); });
}
void TimedBackend::attention_forward(FactorMatrix out, float* log_sum, ConstFactor qkv,
                                     const AttentionShape& shape) {
  timed("attention_forward", [&] { inner_.attention_forward(out, log_sum, qkv, shape); });
}
void TimedBackend::attention_backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv,
                                      ConstFactor out, const float* log_sum,
                                      const AttentionShape& shape) {
  timed("attention_backward",
        [&] { inner_.attention_backward(dqkv, dout, qkv, out, log_sum, shape); });
}
double TimedBackend::head_loss(ConstFactor x, const Weight& weight, const std::int32_t* targets) {
  return timed("head_loss", [&] { return inner_.head_loss(x, weight, targets); });
}
double TimedBackend::head_loss_backward(Matrix dx, Matrix weight_gradient, ConstFactor x,
                                        const Weight& weight, const std::int32_t* targets) {
  return timed("head_loss_backward",
               [&] { return inner_.head_loss_backward(dx, weight_gradient, x, weight, targets); });
}
Contribution TimedBackend::add_gradient(std::int64_t* sums, Write write, ConstMatrix gradient,
                                        std::int16_t exponent, int bits) {
  return timed("add_gradient",
               [&] { return inner_.add_gradient(sums, write, gradient, exponent, bits); });
}
Contribution TimedBackend::add_row_gradients(std::int64_t* sums, ConstMatrix gradient,
                                             const std::int32_t* rows, std::int16_t exponent,
                                             int bits) {
  return timed("add_row_gradients",
               [&] { return inner_.add_row_gradients(sums, gradient, rows, exponent, bits); });
}
Contribution TimedBackend::add_weight_gradient(std::int64_t* sums, Write write, Matrix room,
                                               float* bias_gradient, ConstFactor dy, ConstFactor x,
                                               std::int16_t exponent, int bits) {
  return timed("add_weight_gradient", [&] {
    return inner_.add_weight_gradient(sums, write, room, bias_gradient, dy, x, exponent, bits);
  });
}
void TimedBackend::round_sums(float* gradient, double* squares, const std::int64_t* sums,
                              std::int64_t count, double quantum_per_token) {
  timed("round_sums",
        [&] { inner_.round_sums(gradient, squares, sums, count, quantum_per_token); });
}
std::uint64_t TimedBackend::update_adamw(const UpdateBuffers& buffers,
                                         const UpdateParameters& parameters) {
  return timed("update_adamw", [&] { return inner_.update_adamw(buffers, parameters); });
}
std::uint64_t TimedBackend::update_lamb(const UpdateBuffers& buffers,
                                        const UpdateParameters& parameters) {
  return timed("update_lamb", [&] { return inner_.update_lamb(buffers, parameters); });
}

}  // namespace swarmpi
