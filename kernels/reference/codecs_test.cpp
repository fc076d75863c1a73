#include "kernels/reference/codecs.hpp"

#include <bit>
#include <cstring>
#include <limits>

#include "kernels/codec_element.hpp"
#include "kernels/reference/test_support.hpp"

namespace swarmpi::kernels::reference::codecs_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const std::vector<Coding> kBlockwise = {{Codec::uniform8}, {Codec::blockwise8}};

using Values = std::vector<float>;
using Bytes = std::vector<std::byte>;

Bytes encoded(const Values& x, const Coding& coding) {
  const auto count = static_cast<std::int64_t>(x.size());
  Bytes coded(coded_bytes(coding.codec, count), std::byte{0xee});
  encode(coded.data(), view(x, 1, count), coding);
  return coded;
}
Values decoded(const Bytes& coded, std::size_t count, const Coding& coding) {
  Values x(count, 12345.0f);
  decode(view(x, 1, static_cast<std::int64_t>(count)), coded.data(), coding);
  return x;
}
Values there_and_back(const Values& x, const Coding& coding) {
  return decoded(encoded(x, coding), x.size(), coding);
}
std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(Codecs, ScaledHalvesKeepWhatPlainOnesLose) {
  const Values gradients = {0x1p-30f, -0x1p-25f, 3 * 0x1p-25f, 0.125f};
  EXPECT_EQ(there_and_back(gradients, {Codec::fp16, 1}),
            (Values{0.0f, 0.0f, 4 * 0x1p-25f, 0.125f}));
  EXPECT_EQ(there_and_back(gradients, {Codec::fp16, 0x1p10f}), gradients);
}

TEST(Codecs, AHalfThatOverflowsIsInfinite) {
  const Values x = {65504.0f, 65520.0f, -1e30f};
  EXPECT_EQ(there_and_back(x, {Codec::fp16, 1}), (Values{65504.0f, kInfinity, -kInfinity}));
  EXPECT_EQ(there_and_back({64.0f, -128.0f}, {Codec::fp16, 512}), (Values{64.0f, -kInfinity}));
  const Values small = there_and_back({1e30f}, {Codec::fp16, 0x1p-90f});
  EXPECT_NEAR(small[0] / 1e30f, 1, 0x1p-11);
}

TEST(Codecs, WordsAreLittleEndianOneAfterTheOther) {
  EXPECT_EQ(encoded({1.0f, -2.0f}, {Codec::fp16}),
            (Bytes{std::byte{0x00}, std::byte{0x3c}, std::byte{0x00}, std::byte{0xc0}}));
  EXPECT_EQ(encoded({1.0f, -2.0f}, {Codec::bf16}),
            (Bytes{std::byte{0x80}, std::byte{0x3f}, std::byte{0x00}, std::byte{0xc0}}));
}

TEST(Codecs, MagnitudesOfAllBlocksComeBeforeTheCodes) {
  Values x(kCodedBlock + 2, 0.5f);
  x[7] = -2;
  x[kCodedBlock + 1] = 3;
  for (const Coding& coding : kBlockwise) {
    const Bytes coded = encoded(x, coding);
    float magnitudes[2];
    std::memcpy(magnitudes, coded.data(), sizeof magnitudes);
    EXPECT_EQ(magnitudes[0], 2);
    EXPECT_EQ(magnitudes[1], 3);
    EXPECT_EQ(coded[8 + 7], coding.codec == Codec::uniform8 ? std::byte(-127) : std::byte{0});
    EXPECT_EQ(coded[8 + kCodedBlock + 1],
              coding.codec == Codec::uniform8 ? std::byte{127} : std::byte{255});
  }
}

TEST(Codecs, ErrorsStayWithinHalfAStep) {
  TestRandom random(80);
  const auto x = random.values<float>(2 * kCodedBlock + 100, 7.0);
  const Values uniform = there_and_back(x, {Codec::uniform8});
  const Values dynamic = there_and_back(x, {Codec::blockwise8});
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(uniform[i], x[i], 7.0 / 127 / 2 * 1.001);
    ASSERT_NEAR(dynamic[i], x[i], 7.0 * 0.9 / 64 / 2 * 1.3);  // the widest gap, at minus one
    ASSERT_NEAR(dynamic[i], x[i], 0.06 * std::fabs(x[i]) + 1e-3 * 7);
  }
}

TEST(Codecs, ExactZerosStayZeroInAnyBlock) {
  for (const Coding& coding : kBlockwise) {
    const Values x = there_and_back({0.0f, -0.0f, 1e20f, -3.0f}, coding);
    EXPECT_EQ(bits(x[0]), 0u);
    EXPECT_EQ(bits(x[1]), 0u);
    EXPECT_NEAR(x[2] / 1e20f, 1, 1e-6);
  }
}

TEST(Codecs, ABlockThatIsNotFiniteDecodesToNansThroughoutAndOthersDoNot) {
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
                          std::bit_cast<float>(0xff800001u)}) {
    Values x(3 * kCodedBlock, 1.0f);
    x[2 * kCodedBlock - 1] = bad;
    for (const Coding& coding : kBlockwise) {
      const Values y = there_and_back(x, coding);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const bool is_bad = i / kCodedBlock == 1;
        ASSERT_EQ(bits(y[i]), is_bad ? 0x7fc00000u : bits(1.0f)) << i;
      }
    }
  }
}

TEST(Codecs, ATinyBlockDecodesToPlusZero) {
  const float tiny = std::bit_cast<float>(bits(0x1p-100f) - 1);
  for (const Coding& coding : kBlockwise) {
    for (const float y : there_and_back({-tiny, tiny, 0.0f, -0.0f, 1e-45f}, coding)) {
      EXPECT_EQ(bits(y), 0u);
    }
    EXPECT_NEAR(there_and_back({0x1p-100f}, coding)[0] * 0x1p100f, 1, 1e-6);
  }
}

TEST(Codecs, NearTheLargestNumbersUniform8MayOverflow) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(there_and_back({largest}, {Codec::uniform8})[0], kInfinity);
  EXPECT_EQ(there_and_back({largest}, {Codec::blockwise8})[0], largest);
  EXPECT_NEAR(there_and_back({0.999f * largest}, {Codec::uniform8})[0] / largest, 0.999, 1e-6);
}

TEST(Codecs, ArraysOfNoneAndOfOne) {
  for (const Codec codec : {Codec::fp16, Codec::bf16, Codec::uniform8, Codec::blockwise8}) {
    EXPECT_TRUE(there_and_back({}, {codec}).empty());
    EXPECT_NEAR(there_and_back({2.5f}, {codec})[0], 2.5f, 1e-6) << static_cast<int>(codec);
  }
}

TEST(Codecs, BlocksAreCountedThroughRowsAndPaddingIsNotTouched) {
  constexpr std::int64_t kRows = 7, kColumns = 1000, kStride = 1003;
  TestRandom random(81);
  const auto dense = random.values<float>(kRows * kColumns);
  Values padded(kRows * kStride, kInfinity);
  for (std::size_t r = 0; r < kRows; ++r) {
    std::copy_n(dense.data() + r * kColumns, kColumns, padded.data() + r * kStride);
  }
  for (const Codec codec : {Codec::fp16, Codec::bf16, Codec::uniform8, Codec::blockwise8}) {
    const Bytes expected = encoded(dense, {codec});
    Bytes coded(expected.size());
    encode(coded.data(), ConstMatrix(padded.data(), kRows, kColumns, kStride), {codec});
    EXPECT_EQ(coded, expected);
    Values back(kRows * kStride, kInfinity);
    decode({back.data(), kRows, kColumns, kStride}, coded.data(), {codec});
    const Values values = decoded(coded, dense.size(), {codec});
    for (std::size_t i = 0; i < back.size(); ++i) {
      const std::size_t column = i % kStride;
      ASSERT_EQ(back[i], column < kColumns ? values[i / kStride * kColumns + column] : kInfinity);
    }
  }
}

}  // namespace
}  // namespace swarmpi::kernels::reference::codecs_test
