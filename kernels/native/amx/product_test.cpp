// Products in tiles of AMX: factors are small integers, so every sum is exact in any order.

#include "kernels/native/amx/product.hpp"

#include "kernels/bfloat16.hpp"
#include "kernels/native/amx/tile.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/native/test_support.hpp"
#include "kernels/native/tile.hpp"

namespace swarmpi::kernels::native::product_test {
namespace {

/// A matrix of small integers in bf16, with rows that are farther apart than it is wide.
struct Integers {
  std::int64_t rows, columns, stride;
  std::vector<std::uint16_t> bits;

  Integers(std::int64_t r, std::int64_t c, TestRandom& random)
      : rows(r), columns(c), stride(c + 3), bits(static_cast<std::size_t>(r * stride)) {
    for (auto& element : bits) element = bf16_from_float(static_cast<float>(random.below(9) - 4));
  }
  float at(std::int64_t r, std::int64_t c) const { return float_from_bf16(bits[r * stride + c]); }
  Factor factor() const { return {bits.data(), stride}; }
};

/// Of the weights' way: zeros behind what is there.
struct Panels {
  std::vector<std::uint16_t> bits;

  explicit Panels(const Integers& b) {
    const std::int64_t inner = blocks_of(b.rows, kPanelRows) * kPanelRows;
    const std::int64_t columns = blocks_of(b.columns, kAmxBlock) * kAmxBlock;
    bits.resize(static_cast<std::size_t>(inner * columns));
    pack<std::uint16_t>({bits.data(), inner / 2, kAmxBlock}, b.bits.data(), b.stride, b.rows,
                        b.columns);
  }
  Factor factor() const { return {bits.data(), 0, false, kAmxBlock}; }
};

class AmxProductTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_use_tiles()) GTEST_SKIP() << "no products of bf16 in tiles here";
  }
  static std::vector<float> expected(const Integers& a, const Integers& b) {
    std::vector<float> c(static_cast<std::size_t>(a.rows * b.columns));
    for (std::int64_t r = 0; r < a.rows; ++r) {
      for (std::int64_t k = 0; k < a.columns; ++k) {
        const float left = a.at(r, k);
        for (std::int64_t n = 0; n < b.columns; ++n) c[r * b.columns + n] += left * b.at(k, n);
      }
    }
    return c;
  }
  /// What the blocks hand over: each element once.
  std::vector<float> product(const AmxProduct& product) {
    std::vector<float> c(static_cast<std::size_t>(product.rows * product.columns), -12345.0f);
    const Matrix whole(c.data(), product.rows, product.columns);
    multiply_amx(product, scratch_, AmxReads::of(whole), [&](const AmxBlock& block) {
      const Matrix part = block.of(whole);
      for (std::int64_t r = 0; r < part.rows; ++r) {
        for (std::int64_t n = 0; n < part.columns; ++n) {
          EXPECT_EQ(part.row(r)[n], -12345.0f);
          part.row(r)[n] = block.sums.row(r)[n];
        }
      }
    });
    return c;
  }
  static Integers turned(const Integers& m, TestRandom& random) {
    Integers t(m.columns, m.rows, random);
    for (std::int64_t r = 0; r < m.rows; ++r) {
      for (std::int64_t c = 0; c < m.columns; ++c) {
        t.bits[c * t.stride + r] = m.bits[r * m.stride + c];
      }
    }
    return t;
  }

  TestRandom random_{91};
  Scratch scratch_;
};

TEST_F(AmxProductTest, EverySizeFromEveryFactor) {
  for (const auto& [rows, columns, inner] : {std::tuple{1, 1, 1},
                                             {32, 32, 32},
                                             {5, 3, 7},
                                             {33, 31, 65},
                                             {64, 96, 300},
                                             {70, 1100, 33},
                                             {97, 40, 1027},
                                             {31, 2000, 64}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << columns << " over " << inner);
    const Integers a(rows, inner, random_), b(inner, columns, random_);
    const Integers a_turned = turned(a, random_), b_turned = turned(b, random_);
    const Panels panels(b);
    const std::vector<float> wanted = expected(a, b);
    for (const Factor& left : {a.factor(), a_turned.factor().transposed()}) {
      for (const Factor& right : {b.factor(), b_turned.factor().transposed(), panels.factor()}) {
        EXPECT_TRUE(product({rows, columns, inner, left, right}) == wanted);
      }
    }
  }
}

TEST_F(AmxProductTest, PartsOfTheInnerDimensionAddUp) {
  constexpr std::int64_t kRows = 35, kColumns = 50, kInner = 150, kFirst = 64;
  const Integers a(kRows, kInner, random_), b(kInner, kColumns, random_);
  const Integers a_turned = turned(a, random_), b_turned = turned(b, random_);
  const Panels panels(b);
  const std::vector<float> wanted = expected(a, b);
  for (const Factor& left : {a.factor(), a_turned.factor().transposed()}) {
    for (const Factor& right : {b.factor(), b_turned.factor().transposed(), panels.factor()}) {
      const AmxProduct whole{kRows, kColumns, kInner, left, right};
      std::vector<float> sum = product(whole.part(0, kFirst));
      const std::vector<float> rest = product(whole.part(kFirst, kInner - kFirst));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
      EXPECT_TRUE(sum == wanted);
    }
  }
}

TEST_F(AmxProductTest, TakesNoMoreMemoryThanItSays) {
  for (const std::int64_t inner : {1, 31, 500, 1024, 4096}) {
    Scratch scratch;
    const void* const room = scratch.take(most_amx_scratch_bytes(inner));
    const Integers a(40, inner, random_), b(inner, 1500, random_);
    multiply_amx({40, 1500, inner, a.factor(), b.factor()}, scratch, {}, [](const AmxBlock&) {});
    EXPECT_EQ(scratch.take(1), room) << inner;
  }
}

}  // namespace
}  // namespace swarmpi::kernels::native::product_test
