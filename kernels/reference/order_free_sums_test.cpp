#include "kernels/reference/order_free_sums.hpp"

#include <bit>
#include <limits>

#include "kernels/fixed_point_element.hpp"
#include "kernels/reference/test_support.hpp"

namespace swarmpi::kernels::reference::order_free_sums_test {
namespace {

using Sums = std::vector<std::int64_t>;

Contribution add(Sums& sums, const std::vector<float>& g, std::int16_t exponent, int bits) {
  return add_gradient(sums.data(), Write::add, view(g, 1, static_cast<std::int64_t>(g.size())),
                      exponent, bits);
}

std::vector<float> rounded(const Sums& sums, int q, std::int64_t tokens) {
  std::vector<float> g(sums.size());
  std::vector<double> squares(sums.size() / 4096 + 1);
  round_sums(g.data(), squares.data(), sums.data(), static_cast<std::int64_t>(sums.size()),
             quantum_per_token(q, tokens));
  return g;
}

TEST(OrderFreeSums, DoNotDependOnTheOrderAndCanBeUndone) {
  TestRandom random(70);
  constexpr int kMicrobatches = 37, kCount = 101;
  const int bits = fixed_point_bits(kMicrobatches);
  std::vector<std::vector<float>> gradients;
  for (int m = 0; m < kMicrobatches; ++m) {
    gradients.push_back(random.values<float>(kCount, std::ldexp(1.0, m % 12)));
  }
  Sums forward(kCount), shuffled(kCount), repeated(kCount);
  for (const auto& g : gradients) EXPECT_FALSE(add(forward, g, 0, bits).flagged());
  for (int m = 0; m < kMicrobatches; ++m) add(shuffled, gradients[(m * 11u) % 37], 0, bits);
  EXPECT_EQ(forward, shuffled);

  repeated = forward;
  Sums again(kCount);
  add(again, gradients[5], 0, bits);
  add(repeated, gradients[5], 0, bits);
  for (std::size_t i = 0; i < kCount; ++i) repeated[i] -= again[i];
  EXPECT_EQ(repeated, forward);
}

TEST(OrderFreeSums, AreTheExactMeanWhereItFits) {
  // Multiples of 2^-23 below 1, sixteen of them: nothing is lost in integers or in the division
  // by 4.
  TestRandom random(71);
  Sums sums(50);
  std::vector<double> exact(50);
  for (int m = 0; m < 16; ++m) {
    const auto g = random.values<float>(50);
    EXPECT_FALSE(add(sums, g, 0, 50).flagged());
    for (std::size_t i = 0; i < 50; ++i) exact[i] += g[i];
  }
  const auto mean = rounded(sums, quantum_exponent(0, 50), 4);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(mean[i], static_cast<float>(exact[i] / 4));
}

TEST(OrderFreeSums, ABadMicrobatchAddsNothing) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {infinity, -infinity, nan, -nan}) {
    Sums sums(3, 17);
    const Contribution c = add(sums, {1.0f, bad, 2.0f}, 2, 50);
    EXPECT_TRUE(c.nonfinite);
    EXPECT_FALSE(c.overflow);
    EXPECT_EQ(c.exponent, kNoExponent);
    EXPECT_EQ(sums, Sums(3, 17));
  }
}

TEST(OrderFreeSums, GrowthByAMillionOverflowsOnceAndThenFits) {
  Sums sums(2);
  const std::vector<float> before = {0.7f, -0.2f};
  const std::vector<float> after = {0.7e6f, -0.2e6f};
  const Contribution small = add(sums, before, 0, 50);
  EXPECT_EQ(small.exponent, 0);
  const Sums kept = sums;
  const Contribution large = add(sums, after, small.exponent, 50);
  EXPECT_TRUE(large.overflow);
  EXPECT_EQ(sums, kept);
  Sums raised(2);
  EXPECT_FALSE(add(raised, after, large.exponent, 50).flagged());
  EXPECT_EQ(rounded(raised, quantum_exponent(large.exponent, 50), 1), after);
}

TEST(OrderFreeSums, TheLargestSumsStayWithin62Bits) {
  // Every microbatch as large as the headroom allows, for counts where the bits are scarce.
  for (const std::int64_t m : {1, 4096, 5000, 8192}) {
    const int bits = fixed_point_bits(m);
    Sums sums(1);
    const float largest = std::nextafter(std::ldexp(1.0f, kHeadroomBits), 0.0f);
    EXPECT_FALSE(add(sums, {largest}, 0, bits).flagged());
    EXPECT_LE(sums[0], std::int64_t{1} << bits);
    Sums total(1, sums[0] * m);
    EXPECT_LE(total[0], std::int64_t{1} << 62);
    EXPECT_EQ(rounded(total, quantum_exponent(0, bits), m)[0], largest);
  }
}

TEST(OrderFreeSums, TinyTensorsKeepAllTheirBits) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const std::vector<float> g = {tiny, -3 * tiny, 0.0f, 1000 * tiny};
  Sums sums(4);
  const std::int16_t exponent = least_exponent(magnitude_bits(1000 * tiny));
  EXPECT_FALSE(add(sums, g, exponent, 50).flagged());
  EXPECT_EQ(rounded(sums, quantum_exponent(exponent, 50), 1), g);
}

TEST(OrderFreeSums, ZeroTensorsStayZeroAtAnyExponent) {
  for (const std::int16_t exponent : {kNoExponent, std::int16_t{-32767}, std::int16_t{-1100},
                                      std::int16_t{0}, std::int16_t{32767}}) {
    Sums sums(2);
    const Contribution c = add(sums, {0.0f, -0.0f}, exponent, 50);
    EXPECT_FALSE(c.flagged());
    EXPECT_EQ(c.exponent, kNoExponent);
    EXPECT_EQ(sums, Sums(2));
    EXPECT_EQ(rounded(sums, quantum_exponent(exponent, 50), 3), std::vector<float>(2));
  }
}

TEST(OrderFreeSums, ExtremeExponentsNeitherTrapNorInventValues) {
  Sums sums(1);
  EXPECT_FALSE(add(sums, {std::numeric_limits<float>::max()}, 32767, 50).flagged());
  EXPECT_EQ(sums[0], 0);
  EXPECT_TRUE(add(sums, {std::numeric_limits<float>::denorm_min()}, -1100, 50).overflow);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(rounded({1, -1}, 32000, 1), (std::vector<float>{infinity, -infinity}));
  EXPECT_EQ(rounded({std::int64_t{1} << 62}, -32000, 1), std::vector<float>(1));
}

TEST(OrderFreeSums, EachBlocksSquaresAreSummedInLanes) {
  TestRandom random(72);
  constexpr std::int64_t kCount = 4096 + 16 + 5;
  Sums sums(kCount);
  for (auto& s : sums) s = random.below(std::int64_t{1} << 40) - (std::int64_t{1} << 39);
  std::vector<float> g(kCount);
  double squares[2];
  round_sums(g.data(), squares, sums.data(), kCount, quantum_per_token(-40, 3));
  for (std::size_t first = 0; first < kCount; first += 4096) {
    double lanes[16] = {};
    for (std::size_t i = first; i < std::min<std::size_t>(first + 4096, kCount); ++i) {
      lanes[(i - first) % 16] += double{g[i]} * double{g[i]};
    }
    for (const int half : {8, 4, 2, 1}) {
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    EXPECT_EQ(squares[first / 4096], lanes[0]);
  }
}

TEST(OrderFreeSums, PaddingIsNotRead) {
  Sums sums(4);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> padded = {1.0f, 2.0f, nan, 3.0f, 4.0f, nan};
  EXPECT_FALSE(add_gradient(sums.data(), Write::add, {padded.data(), 2, 2, 3}, 3, 50).flagged());
  EXPECT_EQ(rounded(sums, quantum_exponent(3, 50), 1), (std::vector<float>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace swarmpi::kernels::reference::order_free_sums_test
