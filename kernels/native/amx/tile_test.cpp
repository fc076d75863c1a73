// Blocks of factors and their products in tiles, against sums in double precision.

#include "kernels/native/amx/tile.hpp"

#include "kernels/bfloat16.hpp"
#include "kernels/native/test_support.hpp"

namespace swarmpi::kernels::native::tile_test {
namespace {

using Block = std::vector<std::uint16_t>;

Block random_block(TestRandom& random) {
  Block block(kBlockElements);
  for (std::uint16_t& x : block) x = bf16_from_float(static_cast<float>(random.uniform()));
  return block;
}
/// Element (row, column) of a block of a left factor, or of a right one.
std::uint16_t of_left(const Block& block, std::int64_t row, std::int64_t column) {
  return block[row * kLineElements + column];
}
std::uint16_t of_right(const Block& block, std::int64_t row, std::int64_t column) {
  const std::int64_t line = column / 16 * 16 + row / 2;
  return block[line * kLineElements + 2 * (column % 16) + row % 2];
}

template <class Check>
void for_each_element(const Check& check) {
  for (std::int64_t row = 0; row < kBlockSide; ++row) {
    for (std::int64_t column = 0; column < kBlockSide; ++column) check(row, column);
  }
}

TEST(AmxBlockTest, ARightFactorHasTheElementsOfTheLeftOne) {
  TestRandom random(3);
  const Block left = random_block(random);
  Block right(kBlockElements), transposed(kBlockElements), back(kBlockElements);
  right_of_left(right.data(), left.data());
  transpose_block(transposed.data(), left.data());
  transpose_block(back.data(), transposed.data());
  for_each_element([&](std::int64_t row, std::int64_t column) {
    EXPECT_EQ(of_right(right, row, column), of_left(left, row, column));
    EXPECT_EQ(of_right(transposed, row, column), of_left(left, column, row));
  });
  EXPECT_EQ(back, left);
}

TEST(AmxBlockTest, TransposesFloats) {
  TestRandom random(4);
  const Padded from(kBlockSide, kBlockSide, kBlockSide + 3, random);
  Padded to(kBlockSide, kBlockSide, kBlockSide + 5);
  transpose_block(to.matrix().data, kBlockSide + 5, from.matrix().data, kBlockSide + 3);
  for_each_element([&](std::int64_t row, std::int64_t column) {
    EXPECT_EQ(to.matrix().row(column)[row], from.matrix().row(row)[column]);
  });
  to.elements();  // whose padding is as it was
}

TEST(AmxBlockTest, RowsAreRoundedAndFilledUpWithZeros) {
  constexpr std::int64_t kRows = 45, kFirst = 32;
  for (const std::int64_t columns : {1, 16, 17, 32, 33, 50, 64}) {
    TestRandom random(5);
    const Padded rows(kRows, columns, columns + 3, random);
    std::vector<std::uint16_t> rounded;  // the same rows, stored as bf16
    for (const float x : rows.elements()) rounded.push_back(bf16_from_float(x));
    const std::int64_t blocks = (columns + kBlockSide - 1) / kBlockSide;
    Block of_floats(static_cast<std::size_t>(blocks * kBlockElements), 77), of_bf16 = of_floats;
    pack_left(of_floats.data(), rows.matrix(), kFirst);
    pack_left(of_bf16.data(), {rounded.data(), kRows, columns, columns, Element::bf16}, kFirst);
    EXPECT_EQ(of_floats, of_bf16);
    for (std::int64_t c = 0; c < blocks * kBlockSide; ++c) {
      for (std::int64_t r = 0; r < kBlockSide; ++r) {
        const bool inside = kFirst + r < kRows && c < columns;
        const float expected = inside ? round_to_bf16(rows.matrix().row(kFirst + r)[c]) : 0.0f;
        const std::int64_t at = c / kBlockSide * kBlockElements + r * kLineElements;
        EXPECT_EQ(float_from_bf16(of_floats[at + c % kBlockSide]), expected) << r << ' ' << c;
      }
    }
  }
}

class TileProductTest : public testing::Test {
 protected:
  static constexpr std::int64_t kInner = 3, kStride = kBlockSide + 7;

  void SetUp() override {
    if (!may_use_tiles()) GTEST_SKIP() << "no products of bf16 in tiles here";
    TestRandom random(6);
    for (Block* factor : {&left_, &right_}) {
      for (std::int64_t k = 0; k < kInner; ++k) {
        const Block block = random_block(random);
        factor->insert(factor->end(), block.begin(), block.end());
      }
    }
  }
  void multiply(Padded& c, std::int64_t first, std::int64_t count, Write write) const {
    const TilesInUse tiles;
    multiply_blocks(c.matrix().data, kStride, left_.data() + first * kBlockElements,
                    right_.data() + first * kBlockElements, count, write);
  }
  double expected(std::int64_t row, std::int64_t column) const {
    double sum = 0;
    for (std::int64_t k = 0; k < kInner * kBlockSide; ++k) {
      const auto block = static_cast<std::ptrdiff_t>(k / kBlockSide * kBlockElements);
      const Block left(left_.begin() + block, left_.begin() + block + kBlockElements);
      const Block right(right_.begin() + block, right_.begin() + block + kBlockElements);
      sum += double{float_from_bf16(of_left(left, row, k % kBlockSide))} *
             float_from_bf16(of_right(right, k % kBlockSide, column));
    }
    return sum;
  }

  Block left_, right_;
};

TEST_F(TileProductTest, IsTheSum) {
  Padded c(kBlockSide, kBlockSide, kStride);
  multiply(c, 0, kInner, Write::set);
  c.elements();  // whose padding is as it was
  for (const auto& [row, column] : {std::pair{0, 0}, {3, 17}, {16, 2}, {31, 31}, {20, 15}}) {
    EXPECT_NEAR(c.matrix().row(row)[column], expected(row, column), 100 * kUnit);
  }
}

TEST_F(TileProductTest, HasTheSameBitsInParts) {
  Padded whole(kBlockSide, kBlockSide, kStride), parts = whole;
  multiply(whole, 0, kInner, Write::set);
  multiply(parts, 0, 1, Write::set);
  multiply(parts, 1, kInner - 1, Write::add);
  EXPECT_TRUE(same_bits(whole.elements(), parts.elements()));
}

}  // namespace
}  // namespace swarmpi::kernels::native::tile_test
