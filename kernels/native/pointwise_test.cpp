// Accuracy of exp and GELU, and that their bits depend on no instruction set.

#include "kernels/native/pointwise.hpp"

#include "kernels/native/layer_norm.hpp"
#include "kernels/native/test_support.hpp"
#include "kernels/native/vector_math.hpp"
#include "kernels/portable_math.hpp"
#include "kernels/reference/gelu.hpp"

namespace swarmpi::kernels::native::pointwise_test {
namespace {

TEST(VectorMathTest, ExpIsGoodToAnUlpAndAHalf) {
  for (int i = -86990; i <= 87990; i += 7) {
    const float x = static_cast<float>(i) * 1e-3f;
    const double exact = portable_exp(static_cast<double>(x));
    EXPECT_NEAR(exp_clamped(x) / exact, 1.0, 3 * kUnit) << x;
  }
  EXPECT_EQ(exp_clamped(0.0f), 1.0f);
  EXPECT_EQ(exp_or_zero(-64.5f), 0.0f);
  EXPECT_EQ(exp_or_zero(-HUGE_VALF), 0.0f);
  EXPECT_TRUE(std::isnan(exp_or_zero(std::nanf(""))));
}

/// -12, -12 + step, ... as one row, and some extremes.
std::vector<float> grid() {
  std::vector<float> x;
  for (int i = -12000; i <= 12000; ++i) x.push_back(static_cast<float>(i) * 1e-3f);
  for (const float odd : {0.0f, 1e-30f, -1e-30f, 40.0f, -40.0f, 1e4f, -1e4f}) x.push_back(odd);
  return x;
}

TEST(GeluTest, ValueAndSlopeAreAccurate) {
  const std::vector<float> x = grid();
  const auto count = static_cast<std::int64_t>(x.size());
  std::vector<float> pre = x;
  std::vector<float> y(x.size());
  bias_gelu({pre.data(), 1, count}, {y.data(), 1, count}, nullptr);
  std::vector<float> slope(x.size(), 1.0f);
  scale_by_gelu_slope({slope.data(), 1, count}, {slope.data(), 1, count}, {x.data(), 1, count});
  for (std::size_t i = 0; i < x.size(); ++i) {
    // The exponent, up to 2 * 0.8 * |x|^3, is rounded before it is raised to.
    const double size = std::fabs(static_cast<double>(x[i])) + 1;
    EXPECT_NEAR(y[i], reference::gelu(x[i]), 8 * kUnit * size) << x[i];
    EXPECT_NEAR(slope[i], reference::gelu_slope(x[i]), 16 * kUnit) << x[i];
  }
}

TEST(GeluTest, ExtremesAreThoseOfTheReference) {
  const float infinity = HUGE_VALF;
  std::vector<float> x = {std::nanf(""), -std::nanf("")};
  for (int copies = 0; copies < 9; ++copies) {  // whole vectors and a rest
    for (const float size : {12.5f, 40.0f, 1e4f, 1e12f, 1e15f, 1e20f, 1e30f, 3e38f, infinity}) {
      x.insert(x.end(), {size, -size});
    }
  }
  const auto count = static_cast<std::int64_t>(x.size());
  std::vector<float> pre = x;
  std::vector<float> y(x.size());
  bias_gelu({pre.data(), 1, count}, {y.data(), 1, count}, nullptr);
  std::vector<float> slope(x.size(), 1.0f);
  scale_by_gelu_slope({slope.data(), 1, count}, {slope.data(), 1, count}, {x.data(), 1, count});
  const auto expect_same = [](float value, double reference, float at) {
    if (std::isnan(reference)) {
      EXPECT_TRUE(std::isnan(value)) << at;
    } else {
      EXPECT_EQ(value, static_cast<float>(reference)) << at;
    }
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    expect_same(y[i], reference::gelu(x[i]), x[i]);
    expect_same(slope[i], reference::gelu_slope(x[i]), x[i]);
  }
}

/// One number for all bits of some values: FNV-1a, word by word.
std::uint64_t hash_of(const std::vector<float>& values) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const float value : values) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3u;
  }
  return hash;
}

TEST(PortableBitsTest, NothingDependsOnTheWidthOfVectors) {
  const std::vector<float> x = grid();
  const auto count = static_cast<std::int64_t>(x.size());
  std::vector<float> pre = x;
  std::vector<float> y(x.size());
  bias_gelu({pre.data(), 1, count}, {y.data(), 1, count}, nullptr);
  EXPECT_EQ(hash_of(y), 1391065066051698095u);
  std::vector<float> slope(x.size(), 1.0f);
  scale_by_gelu_slope({slope.data(), 1, count}, {slope.data(), 1, count}, {x.data(), 1, count});
  EXPECT_EQ(hash_of(slope), 3200510432434756256u);

  TestRandom random(99);
  const Padded rows(150, 77, 80, random);
  const Padded dy(150, 77, 80, random);
  Padded normal(150, 77, 80);
  Padded dx(150, 77, 80);
  std::vector<float> mean(150), rstd(150), dweight(77), dbias(77);
  const auto weight = random.values<float>(77);
  Scratch scratch;
  layer_norm_forward(normal.matrix(), mean.data(), rstd.data(), rows.matrix(), weight.data(),
                     weight.data());
  layer_norm_backward(dx.matrix(), {}, dweight.data(), dbias.data(), Write::set, dy.matrix(),
                      rows.matrix(), mean.data(), rstd.data(), weight.data(), scratch);
  EXPECT_EQ(hash_of(normal.elements()), 17014887964637517523u);
  EXPECT_EQ(hash_of(dx.elements()), 11799099268615896656u);
  EXPECT_EQ(hash_of(dweight), 4641803077807378646u);
}

}  // namespace
}  // namespace swarmpi::kernels::native::pointwise_test
