// Coded arrays have the reference's bytes, and decoded ones its bits.

#include "kernels/codec_element.hpp"
#include "kernels/native/test_support.hpp"

namespace swarmpi::kernels::codecs_test {
namespace {

using Bytes = std::vector<std::byte>;

/// Both backends, and the arrays that they are compared by.
class CodecTest : public testing::TestWithParam<Codec> {
 protected:
  static std::vector<Coding> codings() {
    if (GetParam() != Codec::fp16) return {{GetParam()}};
    return {{Codec::fp16, 1}, {Codec::fp16, 0x1p12f}, {Codec::fp16, 0x1p-70f}};
  }

  /// `offset`: of the coded array from where memory is aligned.
  static Bytes encoded(Backend& backend, ConstMatrix x, const Coding& coding, std::size_t offset) {
    const std::size_t size = coded_bytes(coding.codec, x.rows * x.columns);
    Bytes bytes(offset + size + 64, std::byte{0xa5});
    backend.encode(bytes.data() + offset, x, coding);
    for (std::size_t i = offset + size; i < bytes.size(); ++i) {
      EXPECT_EQ(bytes[i], std::byte{0xa5}) << "written behind the end";
    }
    return {bytes.begin() + static_cast<std::ptrdiff_t>(offset), bytes.end() - 64};
  }

  void expect_same(ConstMatrix x, std::size_t offset = 0) {
    for (const Coding& coding : codings()) {
      const Bytes expected = encoded(*reference_, x, coding, 0);
      const Bytes coded = encoded(*native_, x, coding, offset);
      ASSERT_TRUE(coded == expected) << "encoded, " << x.rows << " x " << x.columns;
      expect_same_decoded(coded, x.rows, x.columns, x.stride, coding, offset);
    }
  }

  void expect_same_decoded(const Bytes& coded, std::int64_t rows, std::int64_t columns,
                           std::int64_t stride, const Coding& coding, std::size_t offset = 0) {
    Padded expected(rows, columns, stride), decoded(rows, columns, stride);
    reference_->decode(expected.matrix(), coded.data(), coding);
    Bytes moved(offset + coded.size());
    std::copy(coded.begin(), coded.end(), moved.begin() + static_cast<std::ptrdiff_t>(offset));
    native_->decode(decoded.matrix(), moved.data() + offset, coding);
    ASSERT_TRUE(same_bits(decoded.elements(), expected.elements())) << "decoded";
  }

  /// All fp32 whose bits are a multiple of `stride`: as they come, and for codecs with blocks once
  /// more with a 1 in each block, so that those below it are multiplied by nothing.
  void sweep(std::uint64_t stride) {
    constexpr std::uint64_t kEnd = std::uint64_t{1} << 32;
    constexpr std::size_t kAtOnce = std::size_t{1} << 20;
    std::vector<float> x(kAtOnce), with_ones;
    for (std::uint64_t bits = 0; bits < kEnd;) {
      for (float& value : x) {
        value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
        bits += stride;
      }
      ASSERT_NO_FATAL_FAILURE(expect_same(view(x)));
      if (!is_blockwise(GetParam()) || !(std::fabs(x.back()) <= 1)) continue;
      with_ones.clear();
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (i % (kCodedBlock - 1) == 0) with_ones.push_back(1);
        with_ones.push_back(x[i]);
      }
      ASSERT_NO_FATAL_FAILURE(expect_same(view(with_ones)));
    }
  }

  static ConstMatrix view(const std::vector<float>& x) {
    return {x.data(), 1, static_cast<std::int64_t>(x.size())};
  }

  const std::unique_ptr<Backend> reference_ = make_reference_backend({});
  const std::unique_ptr<Backend> native_ = make_native_backend({});
};

std::string name_of(const testing::TestParamInfo<Codec>& test) {
  constexpr const char* kNames[] = {"fp16", "bf16", "uniform8", "blockwise8"};
  return kNames[static_cast<int>(test.param)];
}

INSTANTIATE_TEST_SUITE_P(All, CodecTest,
                         testing::Values(Codec::fp16, Codec::bf16, Codec::uniform8,
                                         Codec::blockwise8),
                         name_of);

TEST_P(CodecTest, HasTheReferencesBitsAtAnyLengthAndAlignment) {
  TestRandom random(90);
  for (const std::int64_t count : {0, 1, 2, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097, 8191, 8193,
                                   16 * 4096, 16 * 4096 + 1, 33 * 4096 + 300}) {
    for (const std::size_t offset : {0, 1, 3, 6}) {
      auto x = random.values<float>(count + 3, offset == 3 ? 1e-20 : 4.0);
      expect_same({x.data() + offset / 2, 1, count}, offset);
    }
  }
}

TEST_P(CodecTest, HasTheReferencesBitsAtAnyShapeAndStride) {
  TestRandom random(91);
  for (const auto& [rows, columns] :
       {std::pair{5, 0}, {4097, 1}, {3, 1367}, {70, 300}, {9, 4096}, {3, 70001}}) {
    for (const Strides strides : {Strides::dense, Strides::padded, Strides::odd}) {
      const Padded x(rows, columns, stride_of(columns, strides), random);
      expect_same(x.matrix(), 1);
    }
  }
}

TEST_P(CodecTest, HasTheReferencesBitsForBlocksOfAllKinds) {
  TestRandom random(92);
  const float infinity = HUGE_VALF;
  const float tiny = std::bit_cast<float>(std::bit_cast<std::uint32_t>(0x1p-100f) - 1);
  std::vector<float> x = random.values<float>(13 * kCodedBlock - 77);
  int block = 0;
  for (const float odd : {infinity, -infinity, std::nanf(""), std::bit_cast<float>(0xff800001u),
                          3e38f, std::numeric_limits<float>::max(), 0x1p126f, -0x1p127f, 1.0f}) {
    x[static_cast<std::size_t>(block++ * kCodedBlock + 1000)] = odd;
  }
  for (const float factor : {0.0f, -0.0f, tiny, 1e-40f}) {
    for (std::int64_t i = block * kCodedBlock;
         i < 13 * kCodedBlock - 77 && i < (block + 1) * kCodedBlock; ++i) {
      x[static_cast<std::size_t>(i)] *= factor;
    }
    ++block;
  }
  expect_same(view(x));
}

TEST_P(CodecTest, HasTheReferencesBitsOfSomeMillionNumbers) { sweep(1021); }

// About ten minutes in all: --gtest_also_run_disabled_tests --gtest_filter=*EveryNumber*
TEST_P(CodecTest, DISABLED_HasTheReferencesBitsOfEveryNumber) { sweep(1); }

TEST_P(CodecTest, EveryCodeIsDecodedAlike) {
  if (!is_blockwise(GetParam())) {
    Bytes coded(0x20000);
    for (std::size_t half = 0; half < 0x10000; ++half) {
      coded[2 * half] = static_cast<std::byte>(half & 0xff);
      coded[2 * half + 1] = static_cast<std::byte>(half >> 8);
    }
    for (const Coding& coding : codings()) expect_same_decoded(coded, 1, 0x10000, 0x10000, coding);
    return;
  }
  // All codes behind magnitudes of all sizes, also those that no encoder writes.
  constexpr std::int64_t kBlocks = 1000;
  constexpr std::int64_t kCount = kBlocks * kCodedBlock;
  Bytes coded(coded_bytes(GetParam(), kCount));
  for (std::size_t i = 0; i < coded.size(); ++i) coded[i] = static_cast<std::byte>(i & 0xff);
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    const std::uint32_t magnitude = block * (0xffffffffu / kBlocks);
    std::memcpy(coded.data() + block * sizeof magnitude, &magnitude, sizeof magnitude);
  }
  expect_same_decoded(coded, 1, kCount, kCount, {GetParam()});
}

TEST(CodecThreadsTest, BitsDoNotDependOnTheirNumber) {
  TestRandom random(93);
  constexpr std::int64_t kRows = 61, kColumns = 4099, kStride = 4104;
  const Padded x(kRows, kColumns, kStride, random);
  for (const Codec codec : {Codec::fp16, Codec::bf16, Codec::uniform8, Codec::blockwise8}) {
    expect_agreement(
        [&](Backend& backend) {
          Bytes coded(coded_bytes(codec, kRows * kColumns));
          backend.encode(coded.data(), x.matrix(), {codec});
          Padded back(kRows, kColumns, kStride);
          backend.decode(back.matrix(), coded.data(), {codec});
          return std::vector<Output>{{"decoded", back.elements()}};
        },
        Precision::fp32, 3);
  }
}

}  // namespace
}  // namespace swarmpi::kernels::codecs_test
