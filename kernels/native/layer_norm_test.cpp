#include "kernels/native/test_support.hpp"

namespace swarmpi::kernels::layer_norm_test {
namespace {

class LayerNormTest
    : public testing::TestWithParam<std::tuple<std::int64_t, std::int64_t, Strides>> {};

TEST_P(LayerNormTest, AgreesWithTheReference) {
  const auto [rows, width, strides] = GetParam();
  const std::int64_t stride = stride_of(width, strides);
  TestRandom random(11);
  const Padded x(rows, width, stride, random);
  const Padded dy(rows, width, stride, random);
  const Padded through_residual(rows, width, stride, random);
  const auto weight = random.values<float>(width);
  const auto bias = random.values<float>(width);
  const auto count = static_cast<std::size_t>(width);
  expect_agreement(
      [&, rows = rows, width = width](Backend& backend) {
        Padded y(rows, width, stride);
        std::vector<float> mean(static_cast<std::size_t>(rows));
        std::vector<float> rstd(static_cast<std::size_t>(rows));
        backend.layer_norm_forward(y.matrix(), mean.data(), rstd.data(), x.matrix(), weight.data(),
                                   bias.data());
        Padded dx = through_residual;
        std::vector<float> dweight(count);
        std::vector<float> dbias(count);
        backend.layer_norm_backward(dx.matrix(), {}, dweight.data(), dbias.data(), Write::set,
                                    dy.matrix(), x.matrix(), mean.data(), rstd.data(),
                                    weight.data());
        std::vector<float> dweight_twice = dweight;
        std::vector<float> dbias_twice = dbias;
        Padded other = through_residual;
        backend.layer_norm_backward(other.matrix(), {}, dweight_twice.data(), dbias_twice.data(),
                                    Write::add, dy.matrix(), x.matrix(), mean.data(), rstd.data(),
                                    weight.data());
        // An error of x - mean is multiplied by rstd, and by rstd again on the way back.
        const double r = std::max(1.0f, *std::max_element(rstd.begin(), rstd.end()));
        const double row = 4 * kUnit * (8 + std::sqrt(double(width)));
        const double column = 4 * kUnit * r * (8 + double(rows));
        return std::vector<Output>{{"mean", mean, row},
                                   {"rstd", rstd, row * r * r},
                                   {"y", y.elements(), row * r},
                                   {"dx", dx.elements(), 2 * row * r * r},
                                   {"dweight", dweight, column},
                                   {"dbias", dbias, column},
                                   {"dweight added", dweight_twice, 2 * column},
                                   {"dbias added", dbias_twice, 2 * column}};
      },
      Precision::fp32);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LayerNormTest,
    testing::Combine(testing::Values(1, 3, 64, 65, 200), testing::Values(1, 5, 16, 31, 384, 1024),
                     testing::Values(Strides::dense, Strides::padded, Strides::odd)));

}  // namespace
}  // namespace swarmpi::kernels::layer_norm_test
