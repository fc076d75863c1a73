#include "kernels/native/test_support.hpp"

namespace swarmpi::kernels {
namespace {

struct AttentionCase {
  AttentionShape shape;
  Strides strides;
  Precision precision;
};

class AttentionTest : public testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionTest, AgreesWithTheReference) {
  const auto [s, strides, precision] = GetParam();
  const std::int64_t rows = s.sequences * s.context;
  const std::int64_t width = s.heads * s.head_width;
  TestRandom random(31);
  const Padded qkv(rows, 3 * width, stride_of(3 * width, strides), random);
  const Padded dout(rows, width, stride_of(width, strides), random);
  // Sums of `head_width` terms make the scores, sums of `context` the results, with all terms below
  // 1. In bf16 each probability and slope may be rounded to a neighbour, too.
  const auto head_width = static_cast<double>(s.head_width);
  const double roundings = 8 + std::sqrt(head_width) + std::sqrt(static_cast<double>(s.context));
  const double forward = 2 * kUnit * roundings;
  const double flip = precision == Precision::bf16 ? kBf16Unit : 0;
  // A query's probabilities add up to 1: gradients are as large as products of its dout with
  // values.
  const double slope = std::sqrt(head_width);
  expect_agreement(
      [&, s = s, strides = strides](Backend& backend) {
        Padded out(rows, width, stride_of(width, strides));
        std::vector<float> log_sum(static_cast<std::size_t>(rows * s.heads));
        backend.attention_forward(out.matrix(), log_sum.data(), qkv.matrix(), s);
        Padded dqkv(rows, 3 * width, stride_of(3 * width, strides));
        backend.attention_backward(dqkv.matrix(), dout.matrix(), qkv.matrix(), out.matrix(),
                                   log_sum.data(), s);
        return std::vector<Output>{{"out", out.elements(), forward + 2 * flip},
                                   {"log_sum", log_sum, forward},
                                   {"dqkv", dqkv.elements(), (forward + flip) * slope}};
      },
      precision);
}

std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> cases;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const Strides strides : {Strides::dense, Strides::padded, Strides::odd}) {
      cases.push_back({{1, 1, 1, 1}, strides, precision});
      cases.push_back({{2, 17, 3, 5}, strides, precision});
      cases.push_back({{1, 64, 2, 16}, strides, precision});
      cases.push_back({{2, 131, 1, 33}, strides, precision});
    }
    cases.push_back({{1, 65, 2, 1}, Strides::padded, precision});
    cases.push_back({{1, 200, 2, 64}, Strides::padded, precision});
    cases.push_back({{1, 70, 16, 64}, Strides::dense, precision});  // rows 4 KiB and 12 KiB apart
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest, testing::ValuesIn(attention_cases()));

TEST(AttentionScratchTest, WhatWasThereBeforeIsNotSeen) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto results = [&](Backend& backend, std::int64_t context, float factor) {
      const AttentionShape shape{1, context, 2, 9};
      TestRandom random(13);
      Padded qkv(context, 54, 54, random), out(context, 18, 18), dqkv(context, 54, 54);
      for (std::int64_t t = 0; t < context; ++t) qkv.matrix().row(t)[t % 54] *= factor;
      const Padded dout(context, 18, 18, random);
      std::vector<float> log_sum(static_cast<std::size_t>(2 * context));
      backend.attention_forward(out.matrix(), log_sum.data(), qkv.matrix(), shape);
      backend.attention_backward(dqkv.matrix(), dout.matrix(), qkv.matrix(), out.matrix(),
                                 log_sum.data(), shape);
      return std::pair(out.elements(), dqkv.elements());
    };
    const auto used = make_native_backend({precision, 1, MaxIsa::any});
    used->prepare_thread();
    for (const std::int64_t context : {17, 33, 65, 100, 131}) {
      EXPECT_TRUE(std::isnan(results(*used, 200, std::nanf("")).second.back()));
      const auto fresh = make_native_backend({precision, 1, MaxIsa::any});
      const auto [out, dqkv] = results(*used, context, 1);
      const auto [fresh_out, fresh_dqkv] = results(*fresh, context, 1);
      EXPECT_TRUE(same_bits(out, fresh_out)) << context;
      EXPECT_TRUE(same_bits(dqkv, fresh_dqkv)) << context;
    }
  }
}

TEST(AttentionCausalityTest, LaterTokensChangeNothing) {
  const AttentionShape shape{1, 100, 2, 8};
  const Padded qkv = [] {
    TestRandom random(7);
    return Padded(100, 48, 48, random);
  }();
  Padded changed = qkv;
  for (std::int64_t t = 70; t < 100; ++t) std::fill_n(changed.matrix().row(t), 48, 9.0f);
  auto backend = make_native_backend({});
  backend->prepare_thread();
  std::vector<float> log_sum(200);
  Padded out(100, 16, 16);
  Padded other(100, 16, 16);
  backend->attention_forward(out.matrix(), log_sum.data(), qkv.matrix(), shape);
  backend->attention_forward(other.matrix(), log_sum.data(), changed.matrix(), shape);
  const std::vector<float> a = out.elements();
  const std::vector<float> b = other.elements();
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + std::ptrdiff_t{70} * 16, b.begin()));
}

TEST(AttentionExtremesTest, HugeScoresStayFinite) {
  const AttentionShape shape{1, 40, 1, 4};
  TestRandom random(9);
  const Padded qkv(40, 12, 12, random, 1e4);
  auto backend = make_native_backend({});
  backend->prepare_thread();
  std::vector<float> log_sum(40);
  Padded out(40, 4, 4);
  backend->attention_forward(out.matrix(), log_sum.data(), qkv.matrix(), shape);
  Padded dqkv(40, 12, 12);
  backend->attention_backward(dqkv.matrix(), out.matrix(), qkv.matrix(), out.matrix(),
                              log_sum.data(), shape);
  for (const float x : out.elements()) EXPECT_TRUE(std::isfinite(x));
  for (const float x : dqkv.elements()) EXPECT_TRUE(std::isfinite(x));
}

}  // namespace
}  // namespace swarmpi::kernels
