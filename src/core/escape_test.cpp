#include "core/escape.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace swarmpi {
namespace {

std::string shown(std::string_view bytes) {
  TextEscape escape;
  std::string text;
  for (const char c : bytes) text += escape.push(static_cast<std::uint8_t>(c));
  return text + escape.finish();
}

TEST(TextEscape, PlainTextPasses) {
  EXPECT_EQ(shown("One\tline,\nand \\x41"), "One\tline,\nand \\x41");
}

TEST(TextEscape, WholeCharactersPass) {
  EXPECT_EQ(shown("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\x9d"),
            "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\x9d");
}

TEST(TextEscape, ControlCharactersCannotSteerTheTerminal) {
  EXPECT_EQ(shown("\x1b[2J\r\a\x7f"), "\\x1b[2J\\x0d\\x07\\x7f");
  EXPECT_EQ(shown("\xc2\x9b"
                  "2J"),
            "\\xc2\\x9b"
            "2J");  // the same command as one UTF-8 character
}

TEST(TextEscape, BrokenCharactersAreWrittenOut) {
  EXPECT_EQ(shown("\x80\xff"
                  "a"),
            "\\x80\\xff"
            "a");
  EXPECT_EQ(shown("\xe2\x82"
                  "a"),
            "\\xe2\\x82"
            "a");                                       // cut off in the middle
  EXPECT_EQ(shown("\xe2\x82"), "\\xe2\\x82");           // cut off at the end
  EXPECT_EQ(shown("\xe2\xc3\xa9"), "\\xe2\xc3\xa9");    // cut off by another one
  EXPECT_EQ(shown("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(shown("\xc0\x80"), "\\xc0\\x80");           // overlong
}

}  // namespace
}  // namespace swarmpi
