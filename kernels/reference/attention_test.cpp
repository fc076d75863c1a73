#include "kernels/reference/attention.hpp"

#include "kernels/reference/test_support.hpp"

namespace swarmpi::kernels::reference::attention_test {
namespace {

constexpr auto kFull = Precision::fp32;

struct Case {
  explicit Case(const AttentionShape& s, std::uint64_t key)
      : shape(s),
        rows(s.sequences * s.context),
        width(s.heads * s.head_width),
        scratch(static_cast<std::size_t>(attention_scratch(s.context))) {
    TestRandom random(key);
    qkv = random.values<double>(rows * 3 * width, 1.5);
    dout = random.values<double>(rows * width);
    out.resize(dout.size());
    dqkv.resize(qkv.size(), 7.0);
    log_sum.resize(static_cast<std::size_t>(s.sequences * s.heads * s.context));
  }
  void forward() {
    attention_forward<double>(view(out, rows, width), log_sum.data(),
                              view(std::as_const(qkv), rows, 3 * width), shape, kFull,
                              scratch.data());
  }
  void backward() {
    attention_backward<double>(view(dqkv, rows, 3 * width), view(std::as_const(dout), rows, width),
                               view(std::as_const(qkv), rows, 3 * width),
                               view(std::as_const(out), rows, width), log_sum.data(), shape, kFull,
                               scratch.data());
  }
  double& q(std::int64_t row, std::int64_t part, std::int64_t column) {
    return qkv[static_cast<std::size_t>((row * 3 + part) * width + column)];
  }

  AttentionShape shape;
  std::int64_t rows, width;
  std::vector<double> scratch, qkv, dout, out, dqkv, log_sum;
};

TEST(Attention, MatchesItsDefinition) {
  Case c({2, 5, 3, 4}, 40);
  c.forward();
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t h = 0; h < 3; ++h) {
      for (std::int64_t t = 0; t < 5; ++t) {
        std::vector<double> weights;
        double sum = 0;
        for (std::int64_t s = 0; s <= t; ++s) {
          double score = 0;
          for (std::int64_t d = 0; d < 4; ++d) {
            score += c.q(b * 5 + t, 0, h * 4 + d) * c.q(b * 5 + s, 1, h * 4 + d);
          }
          weights.push_back(std::exp(score / 2));
          sum += weights.back();
        }
        EXPECT_NEAR(c.log_sum[static_cast<std::size_t>((b * 3 + h) * 5 + t)], std::log(sum), 1e-13);
        for (std::int64_t d = 0; d < 4; ++d) {
          double expected = 0;
          for (std::int64_t s = 0; s <= t; ++s) {
            expected += weights[static_cast<std::size_t>(s)] / sum * c.q(b * 5 + s, 2, h * 4 + d);
          }
          EXPECT_NEAR(c.out[static_cast<std::size_t>((b * 5 + t) * 12 + h * 4 + d)], expected,
                      1e-13);
        }
      }
    }
  }
}

TEST(Attention, GradientsMatchFiniteDifferences) {
  std::uint64_t key = 41;
  for (const AttentionShape& shape : {AttentionShape{1, 1, 1, 1},
                                      {1, 2, 1, 3},
                                      {2, 7, 3, 5},
                                      {1, 64, 1, 4},
                                      {1, 65, 2, 1},
                                      {1, 131, 1, 7}}) {
    Case c(shape, key++);
    const auto loss = [&] {
      c.forward();
      return dot(c.out, c.dout);
    };
    loss();
    c.backward();
    expect_gradient("qkv", c.qkv, c.dqkv, loss);
  }
}

TEST(Attention, APositionNeverSeesLaterOnes) {
  Case c({1, 70, 1, 3}, 50);
  c.forward();
  const auto before = c.out;
  for (std::int64_t part = 0; part < 3; ++part) c.q(66, part, 1) += 1.0;
  c.forward();
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 66 * 3, c.out.begin()));
  EXPECT_NE(before[66 * 3 + 1], c.out[66 * 3 + 1]);
}

TEST(Attention, LargeScoresDoNotOverflow) {
  Case c({1, 6, 1, 2}, 51);
  for (double& x : c.qkv) x *= 1e4;
  c.forward();
  c.backward();
  for (const double x : c.out) EXPECT_TRUE(std::isfinite(x));
  for (const double x : c.dqkv) EXPECT_TRUE(std::isfinite(x));
}

TEST(Attention, ASequenceHasTheSameBitsAloneAndAmongMany) {
  Case many({3, 67, 2, 5}, 52);
  many.forward();
  many.backward();
  Case one({1, 67, 2, 5}, 0);
  const auto third = [](const std::vector<double>& v) {
    return std::vector<double>(v.begin() + static_cast<std::ptrdiff_t>(v.size() / 3 * 2), v.end());
  };
  one.qkv = third(many.qkv);
  one.dout = third(many.dout);
  one.forward();
  one.backward();
  EXPECT_EQ(one.out, third(many.out));
  EXPECT_EQ(one.log_sum, third(many.log_sum));
  EXPECT_EQ(one.dqkv, third(many.dqkv));
}

}  // namespace
}  // namespace swarmpi::kernels::reference::attention_test
