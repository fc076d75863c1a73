#include "model/gradients.hpp"

#include <algorithm>

namespace swarmpi {
namespace {

bool is_of_layer(const TensorInfo& tensor) { return tensor.layer_set >= 0; }
bool is_of_boundary(const TensorInfo& tensor) { return tensor.cut >= 0; }

/// Whether the buffer must outlive the computation of its tensor: the tables' gradients are made
/// together, vectors beside their matrix, and those of shared layers grow over several layers.
bool has_own_buffer(const TensorInfo& tensor, const StageShape& shape) {
  return !tensor.is_matrix() || tensor.role == TensorRole::position_table ||
         (is_of_layer(tensor) && shape.shares_layers());
}

/// Those of layers and boundaries are made by add_weight_gradient(), the head's whole, the table's
/// where it was read.
std::int64_t rows_at_once(const TensorInfo& tensor, const StageShape& shape, const Layout& layout) {
  if (is_of_layer(tensor) || is_of_boundary(tensor)) {
    return layout.weight_gradient_rows(tensor.rows);
  }
  return tensor.role == TensorRole::token_table ? std::min(shape.rows, tensor.rows) : tensor.rows;
}

}  // namespace

GradientBuffers lay_out_gradients(Layout& layout, const StageShape& shape,
                                  const std::vector<TensorInfo>& tensors) {
  GradientBuffers buffers;
  std::int64_t largest = 0;
  for (const TensorInfo& tensor : tensors) {
    kernels::Matrix& buffer = buffers[static_cast<std::size_t>(tensor.role)];
    if (buffer.rows > 0) continue;
    if (has_own_buffer(tensor, shape)) {
      buffer = layout.matrix(tensor.rows, tensor.columns);
    } else {
      buffer = {nullptr, rows_at_once(tensor, shape, layout), tensor.columns,
                layout.stride(tensor.columns)};
      largest = std::max(largest, buffer.rows * buffer.stride);
    }
  }
  float* const in_turn = layout.vector(largest);
  for (kernels::Matrix& buffer : buffers) {
    if (buffer.empty()) buffer.data = in_turn;
  }
  return buffers;
}

MicrobatchGradients::MicrobatchGradients(const GradientBuffers& buffers,
                                         const StageTensors& tensors, kernels::Backend& backend,
                                         StepSums& sums, const Exponents& exponents, int bits)
    : buffers_(buffers),
      tensors_(tensors),
      backend_(backend),
      sums_(&sums),
      exponents_(&exponents),
      bits_(bits),
      contributions_(tensors.size()) {}

MicrobatchGradients::MicrobatchGradients(const GradientBuffers& buffers,
                                         const StageTensors& tensors, kernels::Backend& backend)
    : buffers_(buffers), tensors_(tensors), backend_(backend) {}

void MicrobatchGradients::add(TensorRole role, std::int64_t layer_set) {
  if (!wanted()) return;
  const std::size_t place = tensors_.place(role, layer_set);
  const StepSums::Target target = sums_->target(place);
  backend_.add_gradient(contributions_[place], target.sums, target.write, matrix(role),
                        exponent(place), bits_);
}

kernels::Matrix MicrobatchGradients::token_rows(std::span<const std::int32_t> rows) const {
  const kernels::Matrix room = matrix(TensorRole::token_table);
  return {room.data, static_cast<std::int64_t>(rows.size()), room.columns, room.stride};
}

void MicrobatchGradients::add_token_rows(std::span<const std::int32_t> rows) {
  if (!wanted()) return;
  const std::size_t place = tensors_.place(TensorRole::token_table, -1);
  const StepSums::Target target = sums_->target(place);
  if (target.write == kernels::Write::set) {
    const auto count = static_cast<std::size_t>(tensors_.info(place).count());
    backend_.zero(target.sums, count * sizeof(std::int64_t));
  }
  backend_.add_row_gradients(contributions_[place], target.sums, token_rows(rows), rows.data(),
                             exponent(place), bits_);
}

void MicrobatchGradients::add_linear(TensorRole weight, TensorRole bias, std::int64_t layer_set,
                                     kernels::ConstFactor dy, kernels::ConstFactor x) {
  if (!wanted()) return;
  const std::size_t place = tensors_.place(weight, layer_set);
  const StepSums::Target target = sums_->target(place);
  backend_.add_weight_gradient(contributions_[place], target.sums, target.write, matrix(weight),
                               vector(bias), dy, x, exponent(place), bits_);
  add(bias, layer_set);
}

}  // namespace swarmpi
