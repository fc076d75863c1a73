#include "kernels/reference/head.hpp"

#include "kernels/reference/test_support.hpp"

namespace swarmpi::kernels::reference::head_test {
namespace {

constexpr auto kFull = Precision::fp32;

TEST(Head, GradientsMatchFiniteDifferences) {
  TestRandom random(60);
  for (const auto& size :
       {std::array<std::int64_t, 3>{1, 1, 1}, {1, 3, 2}, {7, 5, 11}, {67, 3, 17}, {130, 2, 67}}) {
    const std::int64_t r = size[0], c = size[1], v = size[2];
    auto x = random.values<double>(r * c, 2.0);
    auto w = random.values<double>(v * c, 2.0);
    const auto targets = random.tokens(r, v);
    std::vector<double> dx(x.size(), 7.0), dw(w.size(), 7.0);
    std::vector<double> scratch(static_cast<std::size_t>(head_scratch(v)));
    const auto loss = [&] {
      return head_loss<double>(view(std::as_const(x), r, c), view(std::as_const(w), v, c),
                               targets.data(), kFull, scratch.data());
    };
    const double with_gradients = head_loss_backward<double>(
        view(dx, r, c), view(dw, v, c), view(std::as_const(x), r, c), view(std::as_const(w), v, c),
        targets.data(), kFull, scratch.data());
    EXPECT_EQ(with_gradients, loss());
    expect_gradient("x", x, dx, loss);
    expect_gradient("weight", w, dw, loss);
  }
}

TEST(Head, RowsWithoutATargetCountNothing) {
  TestRandom random(61);
  const std::int64_t rows = 130, width = 5, vocabulary = 11;
  const auto x = random.values<float>(rows * width);
  const auto w = random.values<float>(vocabulary * width);
  std::vector<std::int32_t> targets = random.tokens(rows, vocabulary);
  std::vector<float> scratch(static_cast<std::size_t>(head_scratch(vocabulary)));
  const auto loss_of_first = [&](std::int64_t count) {
    return head_loss<float>(view(x, count, width), view(w, vocabulary, width), targets.data(),
                            kFull, scratch.data());
  };
  const double of_targets = loss_of_first(77);
  std::fill(targets.begin() + 77, targets.end(), kNoTarget);
  EXPECT_EQ(loss_of_first(rows), of_targets);
}

TEST(Head, EqualLogitsCostTheLogarithmOfTheVocabulary) {
  const std::vector<float> x(5 * 3, 0.0f), w(256 * 3, 1.0f);
  const std::vector<std::int32_t> targets = {0, 1, 2, 254, 255};
  std::vector<float> scratch(static_cast<std::size_t>(head_scratch(256)));
  EXPECT_NEAR(
      head_loss<float>(view(x, 5, 3), view(w, 256, 3), targets.data(), kFull, scratch.data()),
      5 * std::log(256.0), 1e-13);
}

TEST(Head, HugeLogitsStayFinite) {
  const std::vector<float> x = {1e18f};
  const std::vector<float> w = {1e18f, -1e18f, 0.0f};
  const std::vector<std::int32_t> target = {1};
  std::vector<float> scratch(static_cast<std::size_t>(head_scratch(3))), dx(1), dw(3);
  const double loss =
      head_loss_backward<float>(view(dx, 1, 1), view(dw, 3, 1), view(x, 1, 1), view(w, 3, 1),
                                target.data(), kFull, scratch.data());
  EXPECT_NEAR(loss / 2e36, 1.0, 1e-6);
  EXPECT_EQ(dw, (std::vector<float>{1e18f, -1e18f, 0.0f}));
}

}  // namespace
}  // namespace swarmpi::kernels::reference::head_test
