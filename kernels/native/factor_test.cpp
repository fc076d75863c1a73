// Factors that are kept in bf16: an operation that reads one does the same as with these numbers in
// fp32; one that writes one rounds its fp32 result.

#include <functional>

#include "kernels/bfloat16.hpp"
#include "kernels/native/test_support.hpp"

namespace swarmpi::kernels::factor_test {
namespace {

constexpr std::int64_t kRows = 70, kWidth = 48, kHidden = 84;

class FactorTest : public testing::Test {
 protected:
  void SetUp() override {
    backend_->prepare_thread();
    if (backend_->factor_element() == Element::fp32) {
      GTEST_SKIP() << "this machine multiplies no bf16: factors stay in fp32";
    }
  }
  std::vector<float> random(std::int64_t count) { return random_.values<float>(count); }
  static Matrix view(std::vector<float>& v, std::int64_t columns) {
    return {v.data(), static_cast<std::int64_t>(v.size()) / columns, columns};
  }
  /// Room for a factor of this size, in bf16.
  FactorMatrix room(std::int64_t rows, std::int64_t columns) {
    const std::int64_t stride = backend_->factor_stride(columns);
    memory_.push_back(backend_->allocate(static_cast<std::size_t>(rows * stride) * 2));
    return {memory_.back()->data(), rows, columns, stride, Element::bf16};
  }
  FactorMatrix kept(std::vector<float>& v, std::int64_t columns) {
    const FactorMatrix made = room(view(v, columns).rows, columns);
    backend_->copy_factor(made, view(v, columns));
    return made;
  }
  static std::vector<float> values(const FactorMatrix& f) {
    std::vector<float> list;
    for (std::int64_t r = 0; r < f.rows; ++r) {
      for (std::int64_t c = 0; c < f.columns; ++c) {
        list.push_back(
            float_from_bf16(static_cast<const std::uint16_t*>(f.data)[r * f.stride + c]));
      }
    }
    return list;
  }
  static std::vector<float> rounded(std::vector<float> v) {
    for (float& x : v) x = round_to_bf16(x);
    return v;
  }
  std::unique_ptr<Weight> weight(std::int64_t outputs, std::int64_t inputs) {
    auto made = backend_->make_weight(outputs, inputs);
    masters_.push_back(random(outputs * inputs));
    backend_->refresh(*made, masters_.back().data());
    return made;
  }

  std::unique_ptr<Backend> backend_ = make_native_backend({Precision::bf16, 1, MaxIsa::any});
  TestRandom random_{61};
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<std::vector<float>> masters_;
};

TEST_F(FactorTest, ProductsOfKeptFactorsAreThoseOfMatrices) {
  auto x = random(kRows * kWidth), dy = random(kRows * kHidden);
  const FactorMatrix x_kept = kept(x, kWidth), dy_kept = kept(dy, kHidden);
  EXPECT_TRUE(same_bits(values(x_kept), rounded(x)));
  const auto w = weight(kHidden, kWidth);
  const auto bias = random(kHidden);
  const auto agree =
      [&](const std::function<void(ConstFactor, ConstFactor, std::vector<float>&)>& run) {
        std::vector<float> from_matrices(kRows * kHidden), from_kept(kRows * kHidden);
        run(view(x, kWidth), view(dy, kHidden), from_matrices);
        run(x_kept, dy_kept, from_kept);
        EXPECT_TRUE(same_bits(from_matrices, from_kept));
      };
  agree([&](ConstFactor a, ConstFactor, std::vector<float>& to) {
    backend_->linear_forward(view(to, kHidden), a, *w, bias.data(), {});
  });
  agree([&](ConstFactor, ConstFactor d, std::vector<float>& to) {
    backend_->linear_backward_input({to.data(), kRows, kWidth}, d, *w);
  });
  agree([&](ConstFactor a, ConstFactor d, std::vector<float>& to) {
    backend_->linear_backward_weight({to.data(), kHidden, kWidth}, nullptr, Write::set, d, a);
  });
}

TEST_F(FactorTest, WhatIsMadeKeptIsRounded) {
  auto x = random(kRows * kWidth), dy = random(kRows * kHidden), pre = random(kRows * kWidth);
  const auto w = weight(kHidden, kWidth);
  const auto bias = random(kHidden);
  std::vector<float> plain(kRows * kHidden);
  const FactorMatrix made = room(kRows, kHidden), narrow = room(kRows, kWidth);

  backend_->linear_forward(view(plain, kHidden), view(x, kWidth), *w, bias.data(), {});
  backend_->linear_forward_factor(made, view(x, kWidth), *w, bias.data());
  EXPECT_TRUE(same_bits(values(made), rounded(plain)));

  std::vector<float> before(kRows * kHidden);
  backend_->linear_gelu_forward(view(before, kHidden), view(plain, kHidden), view(x, kWidth), *w,
                                bias.data());
  backend_->linear_gelu_forward(view(before, kHidden), made, view(x, kWidth), *w, bias.data());
  EXPECT_TRUE(same_bits(values(made), rounded(plain)));

  plain.resize(kRows * kWidth);
  backend_->linear_backward_input(view(plain, kWidth), view(dy, kHidden), *w);
  backend_->linear_backward_input_factor(narrow, view(dy, kHidden), *w);
  EXPECT_TRUE(same_bits(values(narrow), rounded(plain)));

  backend_->linear_gelu_backward_input(view(plain, kWidth), view(dy, kHidden), *w,
                                       view(pre, kWidth));
  backend_->linear_gelu_backward_input(narrow, view(dy, kHidden), *w, view(pre, kWidth));
  EXPECT_TRUE(same_bits(values(narrow), rounded(plain)));

  std::vector<float> mean(kRows), rstd(kRows), ones(kWidth, 1.0f), dnorm(2 * kWidth);
  backend_->layer_norm_forward(view(plain, kWidth), mean.data(), rstd.data(), view(x, kWidth),
                               ones.data(), ones.data());
  backend_->layer_norm_forward(narrow, mean.data(), rstd.data(), view(x, kWidth), ones.data(),
                               ones.data());
  EXPECT_TRUE(same_bits(values(narrow), rounded(plain)));
  backend_->layer_norm_backward(view(plain, kWidth), narrow, dnorm.data(), &dnorm[kWidth],
                                Write::set, view(pre, kWidth), view(x, kWidth), mean.data(),
                                rstd.data(), ones.data());
  EXPECT_TRUE(same_bits(values(narrow), rounded(plain)));
}

TEST_F(FactorTest, AttentionTakesAndMakesKeptFactors) {
  const AttentionShape shape{2, 35, 3, 16};
  auto qkv = random(kRows * 3 * kWidth), dout = random(kRows * kWidth);
  const FactorMatrix qkv_kept = kept(qkv, 3 * kWidth), dout_kept = kept(dout, kWidth);
  const FactorMatrix out_kept = room(kRows, kWidth), dqkv_kept = room(kRows, 3 * kWidth);
  std::vector<float> log_sum(kRows * 3), same(kRows * 3), out(kRows * kWidth);
  backend_->attention_forward(view(out, kWidth), log_sum.data(), view(qkv, 3 * kWidth), shape);
  backend_->attention_forward(out_kept, same.data(), qkv_kept, shape);
  EXPECT_TRUE(same_bits(log_sum, same));
  EXPECT_TRUE(same_bits(values(out_kept), rounded(out)));

  std::vector<float> dqkv(kRows * 3 * kWidth);
  auto out_rounded = rounded(out), dout_rounded = rounded(dout);
  backend_->attention_backward(view(dqkv, 3 * kWidth), view(dout_rounded, kWidth),
                               view(qkv, 3 * kWidth), view(out_rounded, kWidth), log_sum.data(),
                               shape);
  backend_->attention_backward(dqkv_kept, dout_kept, qkv_kept, out_kept, log_sum.data(), shape);
  EXPECT_TRUE(same_bits(values(dqkv_kept), rounded(dqkv)));
}

TEST_F(FactorTest, HeadsOfOddWidthsDoNotReadTheirNeighbours) {
  constexpr std::int64_t kHead = 5, kContext = 9;
  const AttentionShape one{1, kContext, 1, kHead}, three{1, kContext, 3, kHead};
  auto qkv = random(kContext * 9 * kHead);
  // The second of three heads, with others that are no numbers, against it alone.
  std::vector<float> alone;
  for (std::int64_t t = 0; t < kContext; ++t) {
    for (std::int64_t c = 0; c < 9 * kHead; ++c) {
      float& x = qkv[t * 9 * kHead + c];
      if (c / kHead % 3 == 1) {
        alone.push_back(x);
      } else {
        x = std::nanf("");
      }
    }
  }
  std::vector<float> log_sum(3 * kContext);
  const FactorMatrix out = room(kContext, 3 * kHead), out_alone = room(kContext, kHead);
  backend_->attention_forward(out, log_sum.data(), kept(qkv, 9 * kHead), three);
  backend_->attention_forward(out_alone, log_sum.data(), kept(alone, 3 * kHead), one);
  const auto all = values(out), expected = values(out_alone);
  for (std::int64_t t = 0; t < kContext; ++t) {
    for (std::int64_t c = 0; c < kHead; ++c) {
      EXPECT_EQ(all[(3 * t + 1) * kHead + c], expected[t * kHead + c]);
    }
  }
}

TEST_F(FactorTest, SumsOverAKeptFactorAreOfTheRoundedValues) {
  auto x = random(kRows * kWidth), dy = random(kRows * kHidden);
  std::vector<float> dw(kHidden * kWidth), expected(kHidden), sums(kHidden);
  auto dy_rounded = rounded(dy);
  backend_->linear_backward_weight(view(dw, kWidth), expected.data(), Write::set,
                                   view(dy_rounded, kHidden), view(x, kWidth));
  backend_->linear_backward_weight(view(dw, kWidth), sums.data(), Write::set, kept(dy, kHidden),
                                   view(x, kWidth));
  EXPECT_TRUE(same_bits(sums, expected));
}

}  // namespace
}  // namespace swarmpi::kernels::factor_test
