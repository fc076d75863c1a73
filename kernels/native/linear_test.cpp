#include "kernels/native/test_support.hpp"

namespace swarmpi::kernels::linear_test {
namespace {

/// A product of `inner` terms of at most 1: every partial sum is rounded, and stays near
/// sqrt(inner); sqrt(inner) times its error is what a random walk of roundings makes of it.
double product_error(std::int64_t inner) { return 4 * kUnit * static_cast<double>(inner + 4); }

struct LinearCase {
  std::int64_t rows, outputs, inputs;
  Strides strides;
  Precision precision;
};

class LinearTest : public testing::TestWithParam<LinearCase> {
 protected:
  LinearCase p = GetParam();
  TestRandom random{20240101};
  Padded x{p.rows, p.inputs, stride_of(p.inputs, p.strides), random};
  Padded dy{p.rows, p.outputs, stride_of(p.outputs, p.strides), random};
  Padded residual{p.rows, p.outputs, stride_of(p.outputs, p.strides), random};
  Padded pre{p.rows, p.inputs, stride_of(p.inputs, p.strides), random, 4.0};
  std::vector<float> master = random.values<float>(p.outputs * p.inputs);
  std::vector<float> bias = random.values<float>(p.outputs);

  Padded zeros_like_y() const { return {p.rows, p.outputs, stride_of(p.outputs, p.strides)}; }
  Padded zeros_like_x() const { return {p.rows, p.inputs, stride_of(p.inputs, p.strides)}; }
  std::unique_ptr<Weight> weight(Backend& backend) const {
    auto made = backend.make_weight(p.outputs, p.inputs);
    backend.refresh(*made, master.data());
    return made;
  }
};

TEST_P(LinearTest, ForwardWithAndWithoutBiasAndResidual) {
  expect_agreement(
      [&](Backend& backend) {
        const auto w = weight(backend);
        const double tolerance = product_error(p.inputs);
        Padded plain = zeros_like_y();
        Padded biased = zeros_like_y();
        Padded added = zeros_like_y();
        Padded in_place = residual;
        backend.linear_forward(plain.matrix(), x.matrix(), *w, nullptr, {});
        backend.linear_forward(biased.matrix(), x.matrix(), *w, bias.data(), {});
        backend.linear_forward(added.matrix(), x.matrix(), *w, nullptr, residual.matrix());
        backend.linear_forward(in_place.matrix(), x.matrix(), *w, bias.data(), in_place.matrix());
        return std::vector<Output>{{"plain", plain.elements(), tolerance},
                                   {"bias", biased.elements(), tolerance},
                                   {"residual", added.elements(), tolerance},
                                   {"in place", in_place.elements(), tolerance}};
      },
      p.precision);
}

TEST_P(LinearTest, GeluForwardAndBackward) {
  expect_agreement(
      [&](Backend& backend) {
        const auto w = weight(backend);
        Padded before = zeros_like_y();
        Padded activated = zeros_like_y();
        Padded dpre = zeros_like_x();
        backend.linear_gelu_forward(before.matrix(), activated.matrix(), x.matrix(), *w,
                                    bias.data());
        backend.linear_gelu_backward_input(dpre.matrix(), dy.matrix(), *w, pre.matrix());
        // GELU's slope is below 1.13; evaluating it costs some roundings more.
        return std::vector<Output>{{"pre", before.elements(), product_error(p.inputs)},
                                   {"activated", activated.elements(), 2 * product_error(p.inputs)},
                                   {"dpre", dpre.elements(), 4 * product_error(p.outputs)}};
      },
      p.precision);
}

TEST_P(LinearTest, BackwardSetsAndAdds) {
  expect_agreement(
      [&](Backend& backend) {
        const auto w = weight(backend);
        Padded dx = zeros_like_x();
        Padded dw(p.outputs, p.inputs, stride_of(p.inputs, p.strides));
        std::vector<float> dbias(static_cast<std::size_t>(p.outputs), 7.0f);
        backend.linear_backward_input(dx.matrix(), dy.matrix(), *w);
        backend.linear_backward_weight(dw.matrix(), dbias.data(), Write::set, dy.matrix(),
                                       x.matrix());
        const std::vector<float> set = dw.elements();
        const std::vector<float> set_bias = dbias;
        backend.linear_backward_weight(dw.matrix(), dbias.data(), Write::add, dy.matrix(),
                                       x.matrix());
        const double tolerance = product_error(p.rows);
        return std::vector<Output>{{"dx", dx.elements(), product_error(p.outputs)},
                                   {"dw", set, tolerance},
                                   {"dbias", set_bias, tolerance},
                                   {"dw added", dw.elements(), 2 * tolerance},
                                   {"dbias added", dbias, 2 * tolerance}};
      },
      p.precision);
}

std::vector<LinearCase> linear_cases() {
  std::vector<LinearCase> cases;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const Strides strides : {Strides::dense, Strides::padded, Strides::odd}) {
      cases.push_back({1, 1, 1, strides, precision});
      cases.push_back({1, 13, 7, strides, precision});
      cases.push_back({5, 1, 3, strides, precision});
      cases.push_back({3, 5, 1, strides, precision});
      cases.push_back({67, 61, 59, strides, precision});
      cases.push_back({130, 257, 96, strides, precision});
    }
    cases.push_back({65, 1024, 256, Strides::dense, precision});  // rows 4 KiB apart
    cases.push_back({40, 128, 1024, Strides::padded, precision});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Shapes, LinearTest, testing::ValuesIn(linear_cases()));

TEST(LinearTwoThreadsTest, AgreesAndRepeats) {
  TestRandom random(5);
  const Padded x(96, 200, 208, random);
  const std::vector<float> master = random.values<float>(60000);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    expect_agreement(
        [&](Backend& backend) {
          const auto w = backend.make_weight(300, 200);
          backend.refresh(*w, master.data());
          Padded y(96, 300, 304);
          backend.linear_forward(y.matrix(), x.matrix(), *w, nullptr, {});
          return std::vector<Output>{{"y", y.elements(), product_error(200)}};
        },
        precision, 2);
  }
}

TEST(ProductBitsTest, DependOnNeitherAlignmentNorStride) {
  const std::int64_t rows = 70;
  const std::int64_t outputs = 48;
  const std::int64_t inputs = 400;
  TestRandom random(8);
  const auto x = random.values<float>(rows * inputs);
  const auto master = random.values<float>(outputs * inputs);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    auto backend = make_native_backend({precision, 1, MaxIsa::any});
    backend->prepare_thread();
    const auto weight = backend->make_weight(outputs, inputs);
    backend->refresh(*weight, master.data());
    std::vector<float> expected(static_cast<std::size_t>(rows * outputs));
    backend->linear_forward({expected.data(), rows, outputs}, {x.data(), rows, inputs}, *weight,
                            nullptr, {});
    // Where weights are packed only dense rows have fast products, and the backend asks for them.
    const bool has_dense_rows = backend->row_stride(128) == 128;
    for (const std::int64_t shift : {0, 1, 4}) {  // elements from an aligned address
      const std::int64_t padding = has_dense_rows ? 0 : shift;
      std::vector<float> shifted(static_cast<std::size_t>(rows * (inputs + padding) + shift));
      std::vector<float> y(static_cast<std::size_t>(rows * (outputs + padding) + shift));
      const Matrix from(shifted.data() + shift, rows, inputs, inputs + padding);
      const Matrix to(y.data() + shift, rows, outputs, outputs + padding);
      for (std::int64_t r = 0; r < rows; ++r) std::copy_n(&x[r * inputs], inputs, from.row(r));
      backend->linear_forward(to, from, *weight, nullptr, {});
      for (std::int64_t r = 0; r < rows; ++r) {
        ASSERT_TRUE(std::equal(to.row(r), to.row(r) + outputs, &expected[r * outputs]));
      }
    }
  }
}

TEST(WeightTest, RefreshReplacesWhatWasThere) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    auto backend = make_native_backend({precision, 1, MaxIsa::any});
    backend->prepare_thread();
    const auto weight = backend->make_weight(1, 2);
    const float x[] = {1.0f, 1.0f};
    float y = 0;
    for (const float value : {1.0f, 3.0f}) {
      const float master[] = {value, value};
      backend->refresh(*weight, master);
      backend->linear_forward({&y, 1, 1}, {x, 1, 2}, *weight, nullptr, {});
      EXPECT_EQ(y, 2 * value);
    }
  }
}

}  // namespace
}  // namespace swarmpi::kernels::linear_test
