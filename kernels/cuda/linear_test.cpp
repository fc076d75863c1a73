// Linear layers on the GPU against the oracle: shapes of all kinds, both precisions.

#include <gtest/gtest.h>

#include <tuple>

#include "kernels/cuda/test_support.hpp"

namespace swarmpi::kernels::linear_test {
namespace {

struct Layer {
  std::int64_t rows, inputs, outputs;
};
void PrintTo(const Layer& layer, std::ostream* to) {  // NOLINT(readability-identifier-naming)
  *to << layer.rows << "x" << layer.inputs << "to" << layer.outputs;
}

class LinearOnGpu : public OnGpu, public testing::WithParamInterface<std::tuple<Precision, Layer>> {
 protected:
  Precision precision() const { return std::get<0>(GetParam()); }
  Layer layer() const { return std::get<1>(GetParam()); }
  /// Sums of bf16 products are in fp32, as the reference's: only their order differs.
  double product_tolerance() const { return 2e-6 * std::sqrt(double(layer().inputs)) + 2e-6; }
  double factor_tolerance() const {
    return precision() == Precision::bf16 ? 0x1p-8 : product_tolerance();
  }

  /// Inputs of a layer, the same on every backend.
  struct Inputs {
    Inputs(const Layer& l, Matrices& on, Backend& backend) {
      TestRandom random(7);
      x = on.filled(on.factor(l.rows, l.inputs), random.values<float>(l.rows * l.inputs));
      dy = on.filled(on.factor(l.rows, l.outputs), random.values<float>(l.rows * l.outputs));
      master = on.filled_vector(random.values<float>(l.outputs * l.inputs));
      bias = on.filled_vector(random.values<float>(l.outputs));
      residual = on.filled(on.matrix(l.rows, l.outputs), random.values<float>(l.rows * l.outputs));
      pre = on.filled(on.matrix(l.rows, l.inputs), random.values<float>(l.rows * l.inputs, 3.0));
      weight = backend.make_weight(l.outputs, l.inputs);
      backend.refresh(*weight, master);
    }
    FactorMatrix x, dy;
    float *master, *bias;
    Matrix residual, pre;
    std::unique_ptr<Weight> weight;
  };
};

TEST_P(LinearOnGpu, Forward) {
  const Layer l = layer();
  expect_agreement(
      [&](Backend& backend) -> std::vector<Output> {
        Matrices on(backend);
        const Inputs in(l, on, backend);
        const Matrix plain = on.matrix(l.rows, l.outputs), beside = on.matrix(l.rows, l.outputs);
        const Matrix in_place = in.residual;
        backend.linear_forward(plain, in.x, *in.weight, nullptr, {});
        backend.linear_forward(beside, in.x, *in.weight, in.bias, in.residual);
        const FactorMatrix factor = on.factor(l.rows, l.outputs);
        backend.linear_forward_factor(factor, in.x, *in.weight, in.bias);
        const Matrix pre = on.matrix(l.rows, l.outputs);
        const FactorMatrix activated = on.factor(l.rows, l.outputs);
        backend.linear_gelu_forward(pre, activated, in.x, *in.weight, in.bias);
        backend.linear_forward(in_place, in.x, *in.weight, in.bias, in_place);
        return {{"y", on.elements(plain), product_tolerance()},
                {"y + bias + residual", on.elements(beside), product_tolerance()},
                {"y in place of the residual", on.elements(in_place), product_tolerance()},
                {"y as a factor", on.elements(factor), factor_tolerance()},
                {"before GELU", on.elements(pre), product_tolerance()},
                {"GELU", on.elements(activated), factor_tolerance()}};
      },
      precision());
}

TEST_P(LinearOnGpu, Backward) {
  const Layer l = layer();
  expect_agreement(
      [&](Backend& backend) -> std::vector<Output> {
        Matrices on(backend);
        const Inputs in(l, on, backend);
        const Matrix dx = on.matrix(l.rows, l.inputs);
        const FactorMatrix factor = on.factor(l.rows, l.inputs), dpre = on.factor(l.rows, l.inputs);
        backend.linear_backward_input(dx, in.dy, *in.weight);
        backend.linear_backward_input_factor(factor, in.dy, *in.weight);
        backend.linear_gelu_backward_input(dpre, in.dy, *in.weight, in.pre);
        const Matrix set = on.matrix(l.outputs, l.inputs);
        float* const bias_set = on.vector(l.outputs);
        backend.linear_backward_weight(set, bias_set, Write::set, in.dy, in.x);
        TestRandom random(9);
        const Matrix added =
            on.filled(on.matrix(l.outputs, l.inputs), random.values<float>(l.outputs * l.inputs));
        float* const bias_added = on.filled_vector(random.values<float>(l.outputs));
        backend.linear_backward_weight(added, bias_added, Write::add, in.dy, in.x);
        const double over_rows = 2e-6 * std::sqrt(double(l.rows)) + 2e-6;
        // The reference adds the bias's gradient up from factors that it does not round.
        const double bias = precision() == Precision::bf16 ? 0x1p-8 : over_rows;
        const double over_outputs = 2e-6 * std::sqrt(double(l.outputs)) + 2e-6;
        const double as_factor = precision() == Precision::bf16 ? 0x1p-8 : over_outputs + 1e-6;
        return {{"dx", on.elements(dx), over_outputs},
                {"dx as a factor", on.elements(factor), as_factor},
                {"dx before GELU", on.elements(dpre), as_factor},
                {"dW", on.elements(set), over_rows},
                {"db", on.elements(bias_set, l.outputs), bias},
                {"dW added", on.elements(added), over_rows},
                {"db added", on.elements(bias_added, l.outputs), bias}};
      },
      precision());
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearOnGpu,
                         testing::Combine(testing::Values(Precision::fp32, Precision::bf16),
                                          testing::Values(Layer{1, 1, 1}, Layer{3, 5, 7},
                                                          Layer{1, 64, 50}, Layer{64, 32, 96},
                                                          Layer{77, 100, 33}, Layer{128, 256, 512},
                                                          Layer{513, 768, 130})));

}  // namespace
}  // namespace swarmpi::kernels::linear_test
