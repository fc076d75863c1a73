// Products in registers: every size, both storages, against sums in the same order.

#include "kernels/native/tile.hpp"

#include "kernels/bfloat16.hpp"
#include "kernels/native/lanes.hpp"
#include "kernels/native/test_support.hpp"
#include "kernels/native/vectors.hpp"

namespace swarmpi::kernels::native::tile_test {
namespace {

float value_of(float x) { return x; }
float value_of(std::uint16_t bits) { return float_from_bf16(bits); }

template <class T>
std::vector<T> random_elements(std::int64_t count, TestRandom& random) {
  std::vector<T> list(static_cast<std::size_t>(count));
  for (T& x : list) {
    const auto value = static_cast<float>(random.uniform());
    if constexpr (sizeof(T) == 2) {
      x = bf16_from_float(value);
    } else {
      x = value;
    }
  }
  return list;
}

template <class T>
class TileTest : public testing::Test {
 protected:
  /// c = a b with b packed from its rows or from its transpose, all of odd strides.
  std::vector<float> product(std::int64_t rows, std::int64_t columns, std::int64_t inner,
                             bool transposed, Write write) {
    std::vector<T> packed(static_cast<std::size_t>(packed_elements<T>(inner, columns)), T(77));
    const RightFactor<T> right{packed.data(), words_of<T>(inner)};
    if (transposed) {
      std::vector<T> turned(static_cast<std::size_t>(columns * (inner + 3)));
      for (std::int64_t k = 0; k < inner; ++k) {
        for (std::int64_t n = 0; n < columns; ++n) turned[n * (inner + 3) + k] = b(k, n, columns);
      }
      pack_transposed(right, turned.data(), inner + 3, inner, columns);
    } else {
      pack(right, b_.data(), columns + 5, inner, columns);
    }
    std::vector<float> c(static_cast<std::size_t>(rows * (columns + 1)), 0.5f);
    multiply_tiles<T>({c.data(), rows, columns, columns + 1}, {a_.data(), inner + 2, kPerWord<T>},
                      right, words_of<T>(inner), write);
    for (std::int64_t r = 0; r < rows; ++r) EXPECT_EQ(c[r * (columns + 1) + columns], 0.5f);
    return c;
  }
  T b(std::int64_t k, std::int64_t n, std::int64_t columns) const {
    return b_[k * (columns + 5) + n];
  }
  void draw(std::int64_t rows, std::int64_t columns, std::int64_t inner) {
    a_ = random_elements<T>(rows * (inner + 2), random_);
    b_ = random_elements<T>(inner * (columns + 5), random_);
    // The last word of an odd row takes one element more, which is to be zero.
    for (std::int64_t r = 0; r < rows; ++r) a_[r * (inner + 2) + inner] = T(0);
  }
  /// A product with what is zero, and what is not needed, has the bits of one with all of it.
  void expect_as_dense(const LeftFactor<T>& left, std::int64_t rows, std::int64_t inner,
                       Write write, std::int64_t diagonal = kWhole) {
    constexpr std::int64_t kWidth = 37;
    const auto elements = random_elements<T>(inner * kWidth, random_);
    std::vector<T> packed(static_cast<std::size_t>(packed_elements<T>(inner, kWidth)));
    const RightFactor<T> right{packed.data(), words_of<T>(inner)};
    pack(right, elements.data(), kWidth, inner, kWidth);
    std::vector<float> all(static_cast<std::size_t>(rows * kWidth), 0.25f);
    std::vector<float> part = all;
    const LeftFactor<T> dense{left.data, left.row_step, left.word_step};
    multiply_tiles<T>({all.data(), rows, kWidth}, dense, right, right.words, write);
    multiply_tiles<T>({part.data(), rows, kWidth}, left, right, right.words, write, diagonal);
    bool left_out = false;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t n = 0; n < kWidth; ++n) {
        const float c = part[r * kWidth + n];
        if (n > r + diagonal && c == 0.25f) {
          left_out = true;
        } else {
          ASSERT_EQ(c, all[r * kWidth + n]) << r << ", " << n;
        }
      }
    }
    EXPECT_EQ(left_out, diagonal < 8);  // the first tile needs one vector
  }

  TestRandom random_{51};
  std::vector<T> a_, b_;
};
using Storages = testing::Types<float, std::uint16_t>;
TYPED_TEST_SUITE(TileTest, Storages);

TYPED_TEST(TileTest, MultipliesAllShapes) {
  if (sizeof(TypeParam) == 2 && !kMultipliesBf16Pairs) GTEST_SKIP() << "no products of bf16 here";
  for (const std::int64_t rows : {1, 13, 14, 15, 64}) {
    for (const std::int64_t columns : {1, 7, 32, 40, 64}) {
      for (const std::int64_t inner : {1, 2, 15, 16, 33}) {
        this->draw(rows, columns, inner);
        const auto set = this->product(rows, columns, inner, false, Write::set);
        const auto turned = this->product(rows, columns, inner, true, Write::set);
        const auto added = this->product(rows, columns, inner, false, Write::add);
        EXPECT_TRUE(same_bits(set, turned));
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t n = 0; n < columns; ++n) {
            float sum = 0;
            for (std::int64_t k = 0; k < inner; ++k) {
              sum = std::fma(value_of(this->a_[r * (inner + 2) + k]),
                             value_of(this->b(k, n, columns)), sum);
            }
            const float c = set[r * (columns + 1) + n];
            if (sizeof(TypeParam) == 4) {
              ASSERT_EQ(c, sum);
            }
            ASSERT_NEAR(c, sum, 4 * kUnit * static_cast<double>(inner));
            ASSERT_EQ(added[r * (columns + 1) + n], 0.5f + c);
          }
        }
      }
    }
  }
}

TEST(TileTransposeTest, ALeftFactorMayBeATranspose) {
  TestRandom random(52);
  constexpr std::int64_t kInner = 6, kRows = 20, kColumns = 9;
  const auto a = random_elements<float>(kInner * kRows, random);
  const auto b = random_elements<float>(kInner * kColumns, random);
  std::vector<float> packed(static_cast<std::size_t>(packed_elements<float>(kInner, kColumns)));
  const RightFactor<float> right{packed.data(), kInner};
  pack(right, b.data(), kColumns, kInner, kColumns);
  std::vector<float> c(kRows * kColumns);
  multiply_tiles<float>({c.data(), kRows, kColumns}, {a.data(), 1, kRows}, right, kInner,
                        Write::set);
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t n = 0; n < kColumns; ++n) {
      float sum = 0;
      for (std::int64_t k = 0; k < kInner; ++k) {
        sum = std::fma(a[k * kRows + r], b[k * kColumns + n], sum);
      }
      ASSERT_EQ(c[r * kColumns + n], sum);
    }
  }
}

// Attention's products: of a triangle, of its transpose, and those that only a triangle is wanted
// of.
TYPED_TEST(TileTest, LeavesOutWhatIsZeroOrNotNeeded) {
  if (sizeof(TypeParam) == 2 && !kMultipliesBf16Pairs) GTEST_SKIP() << "no products of bf16 here";
  using T = TypeParam;
  constexpr std::int64_t kPairs = kPerWord<T>;
  for (const std::int64_t rows : {1, 7, 32, 45}) {
    for (const std::int64_t diagonal : {0, 5, 64}) {
      // A strip of queries against all keys: query r sees keys up to r + diagonal.
      const std::int64_t keys = rows + diagonal;
      std::vector<T> strip = random_elements<T>(rows * (keys + 1), this->random_);
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto row = strip.begin() + r * (keys + 1);
        std::fill(row + r + diagonal + 1, row + keys + 1, T(0));
      }
      // As many pairs of rows as the transpose has words.
      std::vector<T> turned(static_cast<std::size_t>(words_of<T>(rows) * keys * kPairs));
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t k = 0; k < keys; ++k) {
          turned[(r / kPairs * keys + k) * kPairs + r % kPairs] = strip[r * (keys + 1) + k];
        }
      }
      for (const Write write : {Write::set, Write::add}) {
        const std::int64_t step = keys + 1;
        this->expect_as_dense({strip.data(), step, kPairs, Zeros::behind_diagonal, diagonal}, rows,
                              keys, write);
        this->expect_as_dense(
            {turned.data(), kPairs, keys * kPairs, Zeros::before_transposed_diagonal, diagonal},
            keys, rows, write);
      }
      this->expect_as_dense({strip.data(), keys + 1, kPairs}, rows, keys, Write::set, diagonal);
    }
  }
}

TEST(VectorsTest, LoadStoreAndFold) {
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = static_cast<float>((i * 7) % 16) - 5.3f;
  EXPECT_EQ(largest_lane(load(x)), 15 - 5.3f);
  float lanes[16];
  std::copy_n(x, 16, lanes);
  for (const int half : {8, 4, 2, 1}) {
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  EXPECT_EQ(sum_of_lanes(load(x)), lanes[0]);
  for (const float odd : {std::nanf(""), -HUGE_VALF, 1e-40f, -1e-39f, -0.0f, 3.3895314e38f}) {
    x[3] = odd;
    std::uint16_t rounded[16];
    store_vector(rounded, load(x));
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(rounded[i], bf16_from_float(x[i]));
      const Vector back = load(rounded);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(back[i]),
                std::bit_cast<std::uint32_t>(round_to_bf16(x[i])));
    }
  }
  std::uint16_t a[16], b[16];
  store_vector(a, load(x));
  store_vector(b, -load(x));
  const VectorBits pairs = bf16_pairs(load(x), -load(x));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(pairs[i], a[i] | std::uint32_t{b[i]} << 16);
  const Vector masked = masked_from(load(x), 5, 9.0f);
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(i < 5 ? masked[i] == x[i] || i == 3 : masked[i] == 9);
}

TEST(VectorsTest, TheSecondCountsWhereNothingIsLargerOrSmaller) {
  const float nan = std::nanf("");
  const Vector a = {1, 2, nan, 3, -0.0f}, b = {2, 1, 4, nan, 0.0f};
  const Vector most = larger(a, b), least = smaller(a, b);
  EXPECT_EQ(most[0], 2);
  EXPECT_EQ(most[1], 2);
  EXPECT_EQ(least[0], 1);
  EXPECT_EQ(least[1], 1);
  for (const Vector& v : {most, least}) {
    EXPECT_EQ(v[2], 4);
    EXPECT_TRUE(std::isnan(v[3]));
    EXPECT_FALSE(std::signbit(v[4]));
  }
}

TEST(VectorsTest, TheLargestIsOneOfTheFirst) {
  const float nan = std::nanf("");
  const float x[32] = {-9, nan, -7, -8, 5, 6};
  EXPECT_EQ(largest_of(x, 4), -7);
  EXPECT_EQ(largest_of(x, 5), 5);
  EXPECT_EQ(largest_of(x, 20), 6);
  EXPECT_EQ(largest_of(x + 1, 1), -HUGE_VALF);
}

}  // namespace
}  // namespace swarmpi::kernels::native::tile_test
