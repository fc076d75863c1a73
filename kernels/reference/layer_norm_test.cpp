#include "kernels/reference/layer_norm.hpp"

#include "kernels/reference/test_support.hpp"

namespace swarmpi::kernels::reference::layer_norm_test {
namespace {

TEST(LayerNorm, RowsHaveMeanZeroAndVarianceOne) {
  TestRandom random(30);
  const auto x = random.values<double>(3 * 101, 50.0);
  const std::vector<double> ones(101, 1.0), zeros(101, 0.0);
  std::vector<double> y(x.size()), mean(3), rstd(3);
  layer_norm_forward<double>(view(y, 3, 101), mean.data(), rstd.data(), view(x, 3, 101),
                             ones.data(), zeros.data());
  for (std::size_t r = 0; r < 3; ++r) {
    double sum = 0, squares = 0;
    for (std::size_t c = 0; c < 101; ++c) {
      sum += y[101 * r + c];
      squares += y[101 * r + c] * y[101 * r + c];
    }
    EXPECT_NEAR(sum, 0, 1e-12);
    EXPECT_NEAR(squares / 101, 1, 1e-7);  // the epsilon of 1e-5 beside a variance of about 800
  }
}

TEST(LayerNorm, GradientsMatchFiniteDifferencesAndAddToTheResiduals) {
  TestRandom random(31);
  for (const auto& size :
       {std::array<std::int64_t, 2>{1, 1}, {1, 2}, {5, 3}, {3, 16}, {2, 17}, {4, 131}}) {
    const std::int64_t r = size[0], c = size[1];
    auto x = random.values<double>(r * c, 2.0);
    auto weight = random.values<double>(c);
    auto bias = random.values<double>(c);
    const auto dy = random.values<double>(r * c);
    const auto residual = random.values<double>(r * c);
    std::vector<double> y(dy.size()), mean(static_cast<std::size_t>(r)), rstd(mean.size());
    const auto loss = [&] {
      layer_norm_forward<double>(view(y, r, c), mean.data(), rstd.data(),
                                 view(std::as_const(x), r, c), weight.data(), bias.data());
      return dot(y, dy) + dot(x, residual);
    };
    loss();
    std::vector<double> dx = residual, dweight(weight.size(), 7.0), dbias(bias.size(), 7.0);
    layer_norm_backward<double>(view(dx, r, c), dweight.data(), dbias.data(), Write::set,
                                view(dy, r, c), view(std::as_const(x), r, c), mean.data(),
                                rstd.data(), weight.data());
    // Rows of two nearly equal elements bend sharply, down to the scale sqrt(epsilon): the step's
    // error shows there.
    const double tolerance = c == 2 ? 1e-6 : 1e-8;
    expect_gradient("x", x, dx, loss, tolerance);
    expect_gradient("weight", weight, dweight, loss);
    expect_gradient("bias", bias, dbias, loss);

    std::vector<double> more = dweight, more_bias = dbias, ignored(dx.size());
    layer_norm_backward<double>(view(ignored, r, c), more.data(), more_bias.data(), Write::add,
                                view(dy, r, c), view(std::as_const(x), r, c), mean.data(),
                                rstd.data(), weight.data());
    for (std::size_t i = 0; i < more.size(); ++i) {
      EXPECT_NEAR(more[i], 2 * dweight[i], 1e-12);
      EXPECT_NEAR(more_bias[i], 2 * dbias[i], 1e-12);
    }
  }
}

}  // namespace
}  // namespace swarmpi::kernels::reference::layer_norm_test
