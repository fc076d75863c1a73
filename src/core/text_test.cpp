#include "core/text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace swarmpi::text_test {
namespace {

std::string encode(std::uint32_t point) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (point >> shift & 0x3F)); };
  if (point < 0x80) return {static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xC0 | point >> 6), tail(0)};
  if (point < 0x10000) return {static_cast<char>(0xE0 | point >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | point >> 18), tail(12), tail(6), tail(0)};
}

TEST(JoinedWords, NamesEachOnceInOrder) {
  EXPECT_EQ(joined_words("", ""), "");
  EXPECT_EQ(joined_words("node2 node1", ""), "node1 node2");
  EXPECT_EQ(joined_words("node1 node3", "node2 node1"), "node1 node2 node3");
}

TEST(Utf8, EveryCodePointButTheSurrogates) {
  for (std::uint32_t point = 0; point <= 0x110000; ++point) {
    const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    ASSERT_EQ(is_utf8(encode(point)), !surrogate && point <= 0x10FFFF) << point;
  }
}

TEST(Utf8, EveryPairOfBytes) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string text{static_cast<char>(a), static_cast<char>(b)};
      const bool ascii = a < 0x80 && b < 0x80;
      const bool pair = a >= 0xC2 && a <= 0xDF && b >= 0x80 && b <= 0xBF;
      ASSERT_EQ(is_utf8(text), ascii || pair) << a << ' ' << b;
    }
  }
}

TEST(Utf8, BadBytesAreFoundBehindLongAscii) {
  for (std::size_t i = 0; i < 40; ++i) {
    std::string text(40, 'x');
    text[i] = '\xFF';
    EXPECT_FALSE(is_utf8(text)) << i;
    text[i] = '\xE2';
    EXPECT_FALSE(is_utf8(text)) << i;
  }
  EXPECT_FALSE(is_utf8("cut off \xE2\x82"));
  EXPECT_TRUE(is_utf8("whole \xE2\x82\xAC, then more text after it"));
  EXPECT_FALSE(is_utf8("overlong \xE0\x80\xAF"));
  EXPECT_TRUE(is_utf8(""));
}

TEST(Readable, ThreeDigitsAndAUnit) {
  EXPECT_EQ(readable_bytes(512), "512 B");
  EXPECT_EQ(readable_bytes(1536), "1.50 KiB");
  EXPECT_EQ(readable_bytes(24.0 * (1 << 30)), "24.0 GiB");
  EXPECT_EQ(readable_count(812), "812");
  EXPECT_EQ(readable_count(12345678), "12.3 M");
  EXPECT_EQ(readable_count(999999), "1.00 M");
}

TEST(Counted, OneAndSeveral) {
  EXPECT_EQ(counted(1, "peer"), "1 peer");
  EXPECT_EQ(counted(0, "peer"), "0 peers");
  EXPECT_EQ(counted(12, "peer"), "12 peers");
}

TEST(NumberList, ThreeConsecutiveNumbersBecomeARange) {
  EXPECT_EQ(number_list({}), "");
  EXPECT_EQ(number_list({4}), "4");
  EXPECT_EQ(number_list({0, 1, 5}), "0,1,5");
  EXPECT_EQ(number_list({0, 1, 2, 5, 6, 7, 8}), "0-2,5-8");
}

}  // namespace
}  // namespace swarmpi::text_test
