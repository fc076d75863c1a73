#include "kernels/reference/product.hpp"

#include "kernels/bfloat16.hpp"
#include "kernels/reference/test_support.hpp"

namespace swarmpi::kernels::reference::product_test {
namespace {

std::vector<float> multiplied(std::int64_t rows, std::int64_t columns, std::int64_t inner,
                              const Factor<float>& a, const Factor<float>& b,
                              Precision precision = Precision::fp32) {
  std::vector<float> c(static_cast<std::size_t>(rows * columns), -1.0f);
  product<float>(rows, columns, inner, a, b, precision, [&](auto i, auto j, float sum) {
    c[static_cast<std::size_t>(i * columns + j)] = sum;
  });
  return c;
}

TEST(Product, EachElementIsTheSumInIndexOrderToTheBit) {
  TestRandom random(1);
  for (const auto& size : {std::array<std::int64_t, 3>{1, 1, 1},
                           {1, 67, 300},
                           {5, 3, 2},
                           {64, 64, 128},
                           {65, 71, 129},
                           {131, 9, 257},
                           {3, 200, 0}}) {
    const std::int64_t m = size[0], n = size[1], k = size[2];
    const auto a = random.values<float>(m * k);
    const auto b = random.values<float>(k * n);
    const auto c = multiplied(m, n, k, {a.data(), k, 1}, {b.data(), n, 1});
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          const float term =
              a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * n + j)];
          sum += term;
        }
        ASSERT_EQ(c[static_cast<std::size_t>(i * n + j)], sum) << m << " " << n << " " << k;
      }
    }
  }
}

TEST(Product, ARowHasTheSameBitsAloneAndAmongManyAndTransposed) {
  TestRandom random(2);
  const std::int64_t m = 150, n = 77, k = 200;
  const auto a = random.values<float>(m * k);
  const auto b = random.values<float>(k * n);
  const auto all = multiplied(m, n, k, {a.data(), k, 1}, {b.data(), n, 1});
  const auto one = multiplied(1, n, k, {a.data() + 149 * k, k, 1}, {b.data(), n, 1});
  EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + 149 * n));

  std::vector<float> b_transposed(b.size());
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      b_transposed[static_cast<std::size_t>(j * k + i)] = b[static_cast<std::size_t>(i * n + j)];
    }
  }
  const Factor<float> turned{b_transposed.data(), k, 1};
  EXPECT_EQ(multiplied(m, n, k, {a.data(), k, 1}, turned.transposed()), all);
}

TEST(Product, Bf16RoundsBothFactorsAndNothingElse) {
  TestRandom random(3);
  const std::int64_t m = 7, n = 19, k = 131;
  auto a = random.values<float>(m * k);
  auto b = random.values<float>(k * n);
  const auto c = multiplied(m, n, k, {a.data(), k, 1}, {b.data(), n, 1}, Precision::bf16);
  const auto full = multiplied(m, n, k, {a.data(), k, 1}, {b.data(), n, 1});
  EXPECT_NE(c, full);
  for (float& x : a) x = round_to_bf16(x);
  for (float& x : b) x = round_to_bf16(x);
  EXPECT_EQ(multiplied(m, n, k, {a.data(), k, 1}, {b.data(), n, 1}), c);
}

}  // namespace
}  // namespace swarmpi::kernels::reference::product_test
