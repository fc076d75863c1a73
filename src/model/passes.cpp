#include "model/passes.hpp"

#include "core/check.hpp"

namespace swarmpi {

using kernels::Write;

WorkBuffers lay_out_work(Layout& layout, const StageShape& shape, const StageSpec& spec) {
  WorkBuffers work;
  const bool keeps_out = shape.narrows && shape.boundary == Boundary::maxout;
  if (!keeps_out) work.out = layout.matrix(shape.rows, shape.width);
  if (spec.has_head) {
    work.final_mean = layout.vector(shape.rows);
    work.final_rstd = layout.vector(shape.rows);
    work.final_normed = layout.factor(shape.rows, shape.width);
  }
  work.dresidual = layout.matrix(shape.rows, shape.width);
  work.dresidual_factor = layout.factor_beside(work.dresidual);
  work.dbranch = layout.matrix(shape.rows, shape.width);
  work.dattended = layout.factor_beside(work.dbranch);
  work.dqkv = layout.factor(shape.rows, 3 * shape.width);
  work.dpre = layout.factor(shape.rows, shape.hidden);
  if (shape.narrows || shape.widens) {
    work.crossing = layout.matrix(shape.rows, shape.boundary_width);
    work.dcrossing = layout.matrix(shape.rows, shape.boundary_width);
  }
  if (shape.narrows && shape.boundary == Boundary::bottleneck) {
    work.dnarrow = layout.matrix(shape.rows, shape.boundary_width);
    work.dnarrow_factor = layout.factor_beside(work.dnarrow);
  }
  work.gradients = lay_out_gradients(layout, shape, spec.tensors);
  return work;
}

Passes::Passes(const StageShape& shape, const StageSpec& spec, const StageTensors& tensors,
               kernels::Backend& backend)
    : shape_(shape),
      first_layer_(spec.first_layer),
      has_embedding_(spec.has_embedding),
      tensors_(tensors),
      backend_(backend),
      memory_(allocate_layout(backend,
                              [&](Layout& layout) { work_ = lay_out_work(layout, shape, spec); })) {
  backend.reserve(shape.work());
  if (has_embedding_) token_rows_.emplace(shape.rows, shape.vocab);
}

void Passes::forward(Activations& activations, const WeightVersion& weights,
                     std::span<const std::int32_t> tokens, const std::byte* x) {
  std::vector<LayerActivations>& layers = activations.layers;
  if (has_embedding_) {
    SWARMPI_CHECK(static_cast<std::int64_t>(tokens.size()) == shape_.rows, "a token a row");
    backend_.embed_forward(layers.front().x, tokens.data(),
                           vector(weights, TensorRole::token_table),
                           vector(weights, TensorRole::position_table), shape_.context);
  } else if (shape_.widens) {
    widen(activations, weights, x);
  } else {
    shape_.activations_format().read(backend_, layers.front().x, x);
  }
  const kernels::Matrix kept = activations.boundary.leaving;  // for the way back of maxout
  const kernels::Matrix last = kept.empty() ? work_.out : kept;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::int64_t set = (first_layer_ + static_cast<std::int64_t>(i)) / shape_.layers_per_set;
    forward_layer(layers[i], layer_weights(weights, tensors_, set),
                  i + 1 < layers.size() ? layers[i + 1].x : last);
  }
  if (shape_.narrows) narrow(activations.boundary, weights);
}

void Passes::widen(Activations& activations, const WeightVersion& weights, const std::byte* x) {
  const kernels::FactorMatrix received = activations.boundary.received;
  shape_.activations_format().read(backend_, work_.crossing, x);
  backend_.copy_factor(received, work_.crossing);
  backend_.linear_forward(activations.layers.front().x, received,
                          matrix(weights, TensorRole::widening_weight),
                          vector(weights, TensorRole::widening_bias), {});
}

void Passes::narrow(BoundaryActivations& a, const WeightVersion& weights) {
  if (shape_.boundary == Boundary::maxout) {
    return backend_.group_max_forward(work_.crossing, a.leaving);
  }
  backend_.copy_factor(a.leaving_factor, work_.out);
  backend_.linear_forward(a.narrow, a.leaving_factor, matrix(weights, TensorRole::narrowing_weight),
                          vector(weights, TensorRole::narrowing_bias), {});
  backend_.layer_norm_forward(work_.crossing, a.norm_mean, a.norm_rstd, a.narrow,
                              vector(weights, TensorRole::narrowing_norm_weight),
                              vector(weights, TensorRole::narrowing_norm_bias));
}

void Passes::forward_layer(LayerActivations& a, const LayerWeights& w, kernels::Matrix out) {
  backend_.layer_norm_forward(a.normed1, a.norm1_mean, a.norm1_rstd, a.x, w.norm1_weight,
                              w.norm1_bias);
  backend_.linear_forward_factor(a.qkv, a.normed1, w.qkv, w.qkv_bias);
  backend_.attention_forward(a.attended, a.log_sum, a.qkv, shape_.attention());
  backend_.linear_forward(a.middle, a.attended, w.projection, w.projection_bias, a.x);

  backend_.layer_norm_forward(a.normed2, a.norm2_mean, a.norm2_rstd, a.middle, w.norm2_weight,
                              w.norm2_bias);
  backend_.linear_gelu_forward(a.pre, a.activated, a.normed2, w.up, w.up_bias);
  backend_.linear_forward(out, a.activated, w.down, w.down_bias, a.middle);
}

void Passes::final_norm(const WeightVersion& weights) {
  backend_.layer_norm_forward(work_.final_normed, work_.final_mean, work_.final_rstd, work_.out,
                              vector(weights, TensorRole::final_norm_weight),
                              vector(weights, TensorRole::final_norm_bias));
}

void Passes::loss(double& nats, const WeightVersion& weights,
                  std::span<const std::int32_t> targets) {
  SWARMPI_CHECK(static_cast<std::int64_t>(targets.size()) == shape_.rows, "a target a row");
  final_norm(weights);
  backend_.head_loss(nats, work_.final_normed, matrix(weights, TensorRole::head_weight),
                     targets.data());
}

void Passes::logits(const WeightVersion& weights, kernels::Matrix logits) {
  final_norm(weights);
  backend_.linear_forward(logits, work_.final_normed, matrix(weights, TensorRole::head_weight),
                          nullptr, {});
}

void Passes::loss_backward(double& nats, const WeightVersion& weights,
                           std::span<const std::int32_t> targets, MicrobatchGradients& gradients) {
  SWARMPI_CHECK(static_cast<std::int64_t>(targets.size()) == shape_.rows, "a target a row");
  final_norm(weights);
  backend_.head_loss_backward(nats, work_.dbranch, gradients.matrix(TensorRole::head_weight),
                              work_.final_normed, matrix(weights, TensorRole::head_weight),
                              targets.data());
  gradients.add(TensorRole::head_weight);

  const std::int64_t floats = work_.dresidual.rows * work_.dresidual.stride;
  backend_.zero(work_.dresidual.data, static_cast<std::size_t>(floats) * sizeof(float));
  backend_.layer_norm_backward(
      work_.dresidual, residual_copy(), gradients.vector(TensorRole::final_norm_weight),
      gradients.vector(TensorRole::final_norm_bias), Write::set, work_.dbranch, work_.out,
      work_.final_mean, work_.final_rstd, vector(weights, TensorRole::final_norm_weight));
  gradients.add(TensorRole::final_norm_weight);
  gradients.add(TensorRole::final_norm_bias);
}

void Passes::write_output(std::byte* y) {
  const kernels::Matrix leaves = shape_.narrows ? work_.crossing : work_.out;
  shape_.activations_format().write(backend_, y, leaves);
}

void Passes::read_output_gradient(const std::byte* dy) {
  const kernels::Matrix comes = shape_.narrows ? work_.dcrossing : work_.dresidual;
  shape_.gradients_format().read(backend_, comes, dy);
  if (!shape_.narrows) copy_residual();
}

void Passes::write_input_gradient(std::byte* dx) {
  const kernels::Matrix leaves = shape_.widens ? work_.dcrossing : work_.dresidual;
  shape_.gradients_format().write(backend_, dx, leaves);
}

void Passes::copy_residual() {
  if (!residual_copy().empty()) backend_.copy_factor(residual_copy(), work_.dresidual);
}

kernels::FactorMatrix Passes::residual_copy() const {
  if (work_.dresidual_factor.data == work_.dresidual.data) return {};
  return work_.dresidual_factor;
}

void Passes::backward(const Activations& activations, const WeightVersion& weights,
                      std::span<const std::int32_t> tokens, MicrobatchGradients& gradients) {
  const std::vector<LayerActivations>& layers = activations.layers;
  if (shape_.narrows) narrow_backward(activations.boundary, weights, gradients);
  for (std::size_t i = layers.size(); i-- > 0;) {
    const std::int64_t layer = first_layer_ + static_cast<std::int64_t>(i);
    backward_layer(layer, layers[i],
                   layer_weights(weights, tensors_, layer / shape_.layers_per_set), gradients);
  }
  if (shape_.widens) widen_backward(activations.boundary, weights, gradients);
  if (has_embedding_ && gradients.wanted()) {
    SWARMPI_CHECK(static_cast<std::int64_t>(tokens.size()) == shape_.rows, "a token a row");
    token_rows_->read(tokens);
    backend_.embed_backward(gradients.token_rows(token_rows_->rows()),
                            gradients.matrix(TensorRole::position_table), work_.dresidual,
                            token_rows_->places().data());
    gradients.add_token_rows(token_rows_->rows());
    gradients.add(TensorRole::position_table);
  }
}

void Passes::narrow_backward(const BoundaryActivations& a, const WeightVersion& weights,
                             MicrobatchGradients& gradients) {
  using enum TensorRole;
  if (shape_.boundary == Boundary::maxout) {
    backend_.group_max_backward(work_.dresidual, work_.dcrossing, a.leaving);
    return copy_residual();
  }
  const kernels::Matrix dnarrow = work_.dnarrow;
  backend_.zero(dnarrow.data,
                static_cast<std::size_t>(dnarrow.rows * dnarrow.stride) * sizeof(float));
  const bool is_factor = work_.dnarrow_factor.data == dnarrow.data;
  backend_.layer_norm_backward(
      dnarrow, is_factor ? kernels::FactorMatrix{} : work_.dnarrow_factor,
      gradients.vector(narrowing_norm_weight), gradients.vector(narrowing_norm_bias), Write::set,
      work_.dcrossing, a.narrow, a.norm_mean, a.norm_rstd, vector(weights, narrowing_norm_weight));
  gradients.add(narrowing_norm_weight);
  gradients.add(narrowing_norm_bias);
  gradients.add_linear(narrowing_weight, narrowing_bias, -1, work_.dnarrow_factor,
                       a.leaving_factor);
  backend_.linear_backward_input(work_.dresidual, work_.dnarrow_factor,
                                 matrix(weights, narrowing_weight));
  copy_residual();
}

void Passes::widen_backward(const BoundaryActivations& a, const WeightVersion& weights,
                            MicrobatchGradients& gradients) {
  using enum TensorRole;
  gradients.add_linear(widening_weight, widening_bias, -1, work_.dresidual_factor, a.received);
  backend_.linear_backward_input(work_.dcrossing, work_.dresidual_factor,
                                 matrix(weights, widening_weight));
}

void Passes::backward_layer(std::int64_t layer, const LayerActivations& a, const LayerWeights& w,
                            MicrobatchGradients& g) {
  using enum TensorRole;
  // The last layer of a set comes first here: it sets what the others add to; the first layer
  // completes the sum.
  const std::int64_t set = layer / shape_.layers_per_set;
  const std::int64_t within = layer % shape_.layers_per_set;
  const Write write = within == shape_.layers_per_set - 1 ? Write::set : Write::add;
  const auto complete = [&](TensorRole weight, TensorRole bias) {
    if (within != 0) return;
    g.add(weight, set);
    g.add(bias, set);
  };
  const auto linear = [&](TensorRole weight, TensorRole bias, kernels::ConstFactor dy,
                          kernels::ConstFactor x) {
    if (!g.wanted()) return;
    if (!shape_.shares_layers()) return g.add_linear(weight, bias, set, dy, x);
    backend_.linear_backward_weight(g.matrix(weight), g.vector(bias), write, dy, x);
    complete(weight, bias);
  };
  // Of the layer's output, then of its middle, then of its input.
  const kernels::Matrix dx = work_.dresidual;
  const kernels::FactorMatrix dx_factor = work_.dresidual_factor;
  const kernels::Matrix dbranch = work_.dbranch;

  linear(down_weight, down_bias, dx_factor, a.activated);
  backend_.linear_gelu_backward_input(work_.dpre, dx_factor, w.down, a.pre);
  linear(up_weight, up_bias, work_.dpre, a.normed2);
  backend_.linear_backward_input(dbranch, work_.dpre, w.up);
  backend_.layer_norm_backward(dx, residual_copy(), g.vector(norm2_weight), g.vector(norm2_bias),
                               write, dbranch, a.middle, a.norm2_mean, a.norm2_rstd,
                               w.norm2_weight);
  complete(norm2_weight, norm2_bias);

  linear(projection_weight, projection_bias, dx_factor, a.attended);
  backend_.linear_backward_input_factor(work_.dattended, dx_factor, w.projection);
  backend_.attention_backward(work_.dqkv, work_.dattended, a.qkv, a.attended, a.log_sum,
                              shape_.attention());
  linear(qkv_weight, qkv_bias, work_.dqkv, a.normed1);
  backend_.linear_backward_input(dbranch, work_.dqkv, w.qkv);
  backend_.layer_norm_backward(dx, residual_copy(), g.vector(norm1_weight), g.vector(norm1_bias),
                               write, dbranch, a.x, a.norm1_mean, a.norm1_rstd, w.norm1_weight);
  complete(norm1_weight, norm1_bias);
}

const kernels::Weight& Passes::matrix(const WeightVersion& weights, TensorRole role) const {
  return *weights.multiplied[tensors_.place(role)];
}

const float* Passes::vector(const WeightVersion& weights, TensorRole role) const {
  return weights.tensors[tensors_.place(role)];
}

}  // namespace swarmpi
