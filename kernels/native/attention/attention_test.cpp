#include "kernels/native/attention/attention.hpp"

#include "kernels/native/amx/tile.hpp"
#include "kernels/native/test_support.hpp"
#include "kernels/native/tile.hpp"

namespace swarmpi::kernels::attention_test {
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
    // Around the blocks of 16 and 32, and strips of several of these.
    for (const std::int64_t head_width : {16, 24, 32, 64, 80, 128}) {
      for (const std::int64_t context : {31, 32, 33, 130}) {
        cases.push_back({{2, context, 2, head_width}, Strides::padded, precision});
      }
    }
    cases.push_back({{1, 300, 1, 40}, Strides::odd, precision});
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

/// Both ways of attention on a native backend, in rows of so many elements more than they have.
struct BothWays {
  Padded out, dqkv;
  std::vector<float> log_sum;

  BothWays(Precision precision, const Padded& qkv, const Padded& dout, const AttentionShape& s,
           std::int64_t padding = 0)
      : out(s.sequences * s.context, s.heads * s.head_width, s.heads * s.head_width + padding),
        dqkv(out.matrix().rows, 3 * s.heads * s.head_width, 3 * s.heads * s.head_width + padding),
        log_sum(static_cast<std::size_t>(out.matrix().rows * s.heads)) {
    const auto backend = make_native_backend({precision, 1, MaxIsa::any});
    backend->prepare_thread();
    backend->attention_forward(out.matrix(), log_sum.data(), qkv.matrix(), s);
    backend->attention_backward(dqkv.matrix(), dout.matrix(), qkv.matrix(), out.matrix(),
                                log_sum.data(), s);
  }
};

TEST(AttentionArithmeticTest, EachOfBf16IsNearTheReferences) {
  using native::AttentionArithmetic;
  std::vector<AttentionArithmetic> all = {AttentionArithmetic::rounded_fp32};
  if (native::kMultipliesBf16Pairs) all.push_back(AttentionArithmetic::bf16_pairs);
  if (native::may_use_tiles()) all.push_back(AttentionArithmetic::tiles);
  const AttentionShape s{2, 70, 2, 24};
  TestRandom random(19);
  const Padded qkv(140, 144, 144, random), dout(140, 48, 48, random);
  const auto reference = make_reference_backend({Precision::bf16, 1, MaxIsa::any});
  Padded out(140, 48, 48), dqkv(140, 144, 144);
  std::vector<float> log_sum(280);
  reference->attention_forward(out.matrix(), log_sum.data(), qkv.matrix(), s);
  reference->attention_backward(dqkv.matrix(), dout.matrix(), qkv.matrix(), out.matrix(),
                                log_sum.data(), s);
  for (const AttentionArithmetic arithmetic : all) {
    native::Attention attention(arithmetic);
    Padded own_out(140, 48, 48), own_dqkv(140, 144, 144);
    attention.forward(own_out.matrix(), log_sum.data(), qkv.matrix(), s);
    attention.backward(own_dqkv.matrix(), dout.matrix(), qkv.matrix(), own_out.matrix(),
                       log_sum.data(), s);
    for (std::int64_t i = 0; i < 140 * 48; ++i) {
      EXPECT_NEAR(own_out.matrix().data[i], out.matrix().data[i], 2 * kBf16Unit);
    }
    for (std::int64_t i = 0; i < 140 * 144; ++i) {
      EXPECT_NEAR(own_dqkv.matrix().data[i], dqkv.matrix().data[i], 5 * kBf16Unit);
    }
  }
}

TEST(AttentionArithmeticTest, TilesAreForBf16WhereAllProductsMayUseThem) {
  using native::Attention, native::AttentionArithmetic;
  const bool may = native::may_use_tiles();
  EXPECT_EQ(Attention::fastest(Precision::bf16, true, true) == AttentionArithmetic::tiles, may);
  EXPECT_NE(Attention::fastest(Precision::bf16, true, false), AttentionArithmetic::tiles);
  EXPECT_EQ(Attention::fastest(Precision::fp32, true, true), AttentionArithmetic::fp32);
}

/// The elements of these rows, in other strides.
Padded rows_of(const Padded& m, std::int64_t first, std::int64_t count, std::int64_t padding) {
  const std::int64_t columns = m.matrix().columns;
  Padded rows(count, columns, columns + padding);
  for (std::int64_t r = 0; r < count; ++r) {
    std::copy_n(m.matrix().row(first + r), columns, rows.matrix().row(r));
  }
  return rows;
}

TEST(AttentionSequencesTest, HaveTheSameBitsAloneAndElsewhere) {
  const AttentionShape all{3, 75, 2, 24};
  const AttentionShape alone{1, 75, 2, 24};
  TestRandom random(17);
  const Padded qkv(225, 144, 144, random), dout(225, 48, 48, random);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const BothWays together(precision, qkv, dout, all);
    for (std::int64_t b = 0; b < all.sequences; ++b) {
      const std::int64_t padding = 2 * b + 1;
      const BothWays one(precision, rows_of(qkv, b * 75, 75, padding),
                         rows_of(dout, b * 75, 75, padding), alone, padding);
      EXPECT_TRUE(same_bits(one.out.elements(), rows_of(together.out, b * 75, 75, 0).elements()));
      EXPECT_TRUE(same_bits(one.dqkv.elements(), rows_of(together.dqkv, b * 75, 75, 0).elements()));
    }
  }
}

TEST(AttentionCausalityTest, LaterTokensChangeNothing) {
  const AttentionShape shape{1, 100, 2, 8};
  TestRandom random(7);
  const Padded qkv(100, 48, 48, random), dout(100, 16, 16, random);
  Padded changed = qkv;
  for (std::int64_t t = 70; t < 100; ++t) std::fill_n(changed.matrix().row(t), 48, 9.0f);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const BothWays before(precision, qkv, dout, shape), after(precision, changed, dout, shape);
    EXPECT_TRUE(same_bits(rows_of(before.out, 0, 70, 0).elements(),
                          rows_of(after.out, 0, 70, 0).elements()));
    EXPECT_FALSE(same_bits(before.out.elements(), after.out.elements()));
  }
}

TEST(AttentionCausalityTest, EarlierTokensChangeNoLaterQuerysGradient) {
  const AttentionShape shape{1, 100, 1, 8};
  TestRandom random(8);
  const Padded qkv(100, 24, 24, random), dout(100, 8, 8, random);
  Padded silent = dout;  // of the first queries, whose keys later ones see too
  for (std::int64_t t = 0; t < 50; ++t) std::fill_n(silent.matrix().row(t), 8, 0.0f);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const BothWays before(precision, qkv, dout, shape), after(precision, qkv, silent, shape);
    const auto of_late = [](const BothWays& b) { return rows_of(b.dqkv, 50, 50, 0).elements(); };
    EXPECT_TRUE(same_bits(of_late(before), of_late(after)));
  }
}

TEST(AttentionExtremesTest, HugeScoresStayFinite) {
  const AttentionShape shape{1, 40, 1, 4};
  TestRandom random(9);
  const Padded qkv(40, 12, 12, random, 1e4), dout(40, 4, 4, random, 1e4);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const BothWays ways(precision, qkv, dout, shape);
    for (const float x : ways.out.elements()) EXPECT_TRUE(std::isfinite(x));
    for (const float x : ways.dqkv.elements()) EXPECT_TRUE(std::isfinite(x));
  }
}

}  // namespace
}  // namespace swarmpi::kernels::attention_test
