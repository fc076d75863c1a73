#include "kernels/reference/linear.hpp"

#include "kernels/reference/gelu.hpp"
#include "kernels/reference/test_support.hpp"

namespace swarmpi::kernels::reference::linear_test {
namespace {

constexpr auto kFull = Precision::fp32;
using Shape = std::array<std::int64_t, 3>;  // rows, outputs, inputs
constexpr Shape kShapes[] = {{1, 1, 1}, {1, 7, 3}, {5, 1, 11}, {67, 13, 17}, {3, 130, 131}};

TEST(Linear, GradientsMatchFiniteDifferences) {
  TestRandom random(10);
  for (const auto& size : kShapes) {
    const std::int64_t r = size[0], n = size[1], k = size[2];
    auto x = random.values<double>(r * k);
    auto w = random.values<double>(n * k);
    auto bias = random.values<double>(n);
    const auto residual = random.values<double>(r * n);
    const auto dy = random.values<double>(r * n);
    std::vector<double> y(dy.size()), dx(x.size()), dw(w.size()), dbias(bias.size());
    const auto loss = [&] {
      linear_forward<double>(view(y, r, n), view(std::as_const(x), r, k),
                             view(std::as_const(w), n, k), bias.data(), view(residual, r, n),
                             kFull);
      return dot(y, dy);
    };
    linear_backward_input<double>(view(dx, r, k), view(dy, r, n), view(std::as_const(w), n, k),
                                  kFull);
    linear_backward_weight<double>(view(dw, n, k), dbias.data(), Write::set, view(dy, r, n),
                                   view(std::as_const(x), r, k), kFull);
    expect_gradient("x", x, dx, loss);
    expect_gradient("weight", w, dw, loss);
    expect_gradient("bias", bias, dbias, loss);
  }
}

TEST(Linear, GeluGradientsMatchFiniteDifferences) {
  TestRandom random(11);
  for (const auto& size : kShapes) {
    const std::int64_t r = size[0], n = size[1], k = size[2];
    // pre (R, K) -> gelu -> product with W (N, K): the feed-forward layer's second half.
    auto pre = random.values<double>(r * k, 4.0);
    const auto w = random.values<double>(n * k);
    const auto dy = random.values<double>(r * n);
    std::vector<double> activated(pre.size()), y(dy.size()), dpre(pre.size());
    const auto loss = [&] {
      for (std::size_t i = 0; i < pre.size(); ++i) activated[i] = gelu(pre[i]);
      linear_forward<double>(view(y, r, n), view(std::as_const(activated), r, k), view(w, n, k),
                             nullptr, {}, kFull);
      return dot(y, dy);
    };
    linear_gelu_backward_input<double>(view(dpre, r, k), view(dy, r, n), view(w, n, k),
                                       view(std::as_const(pre), r, k), kFull);
    expect_gradient("pre", pre, dpre, loss);
  }
}

TEST(Linear, GeluForwardKeepsThePreActivation) {
  TestRandom random(12);
  const auto x = random.values<float>(5 * 7);
  const auto w = random.values<float>(3 * 7);
  const auto bias = random.values<float>(3);
  std::vector<float> pre(15), activated(15), plain(15);
  linear_gelu_forward<float>(view(pre, 5, 3), view(activated, 5, 3), view(x, 5, 7), view(w, 3, 7),
                             bias.data(), kFull);
  linear_forward<float>(view(plain, 5, 3), view(x, 5, 7), view(w, 3, 7), bias.data(), {}, kFull);
  EXPECT_EQ(pre, plain);
  for (std::size_t i = 0; i < pre.size(); ++i) {
    EXPECT_EQ(activated[i], static_cast<float>(gelu(pre[i])));
  }
}

TEST(Linear, TheResidualMayBeTheResultItself) {
  TestRandom random(13);
  const auto x = random.values<float>(70 * 9);
  const auto w = random.values<float>(66 * 9);
  const auto residual = random.values<float>(70 * 66);
  std::vector<float> apart(residual.size());
  std::vector<float> in_place = residual;
  linear_forward<float>(view(apart, 70, 66), view(x, 70, 9), view(w, 66, 9), nullptr,
                        view(residual, 70, 66), kFull);
  linear_forward<float>(view(in_place, 70, 66), view(x, 70, 9), view(w, 66, 9), nullptr,
                        view(std::as_const(in_place), 70, 66), kFull);
  EXPECT_EQ(apart, in_place);
}

TEST(Linear, AddedGradientsAreTheSumOfTwo) {
  TestRandom random(14);
  const auto x = random.values<float>(6 * 5);
  const auto dy = random.values<float>(6 * 4);
  std::vector<float> once(20), twice(20), bias_once(4), bias_twice(4);
  const auto run = [&](std::vector<float>& dw, std::vector<float>& db, Write write) {
    linear_backward_weight<float>(view(dw, 4, 5), db.data(), write, view(dy, 6, 4), view(x, 6, 5),
                                  kFull);
  };
  run(once, bias_once, Write::set);
  twice = once;
  run(twice, bias_twice, Write::set);
  run(twice, bias_twice, Write::add);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(twice[i], 2 * once[i]);
  for (std::size_t i = 0; i < bias_once.size(); ++i) {
    EXPECT_NEAR(bias_twice[i], 2 * bias_once[i], 1e-6);
  }
}

TEST(Linear, PaddedRowsAreReadAndWrittenWithinTheirColumns) {
  TestRandom random(15);
  auto x = random.values<float>(3 * 8);
  const auto w = random.values<float>(2 * 5);
  std::vector<float> dense_x, y(6), padded(3 * 7, 9.0f);
  for (int r = 0; r < 3; ++r) dense_x.insert(dense_x.end(), &x[8 * r], &x[8 * r] + 5);
  linear_forward<float>(view(y, 3, 2), view(std::as_const(dense_x), 3, 5), view(w, 2, 5), nullptr,
                        {}, kFull);
  linear_forward<float>({padded.data(), 3, 2, 7}, {x.data(), 3, 5, 8}, view(w, 2, 5), nullptr, {},
                        kFull);
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t c = 0; c < 7; ++c) EXPECT_EQ(padded[7 * r + c], c < 2 ? y[2 * r + c] : 9.0f);
  }
}

TEST(Gelu, HasItsKnownValuesAndLimits) {
  EXPECT_EQ(gelu(0.0), 0.0);
  EXPECT_EQ(gelu_slope(0.0), 0.5);
  EXPECT_NEAR(gelu(1.0), 0.8411919906082768, 1e-15);
  EXPECT_EQ(gelu(30.0), 30.0);
  EXPECT_EQ(gelu_slope(30.0), 1.0);
  EXPECT_EQ(gelu(-30.0), 0.0);
  EXPECT_EQ(gelu_slope(-30.0), 0.0);
}

}  // namespace
}  // namespace swarmpi::kernels::reference::linear_test
