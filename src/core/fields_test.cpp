#include "core/fields.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace swarmpi {
namespace {

TEST(Fields, ComeBackInOrder) {
  std::string text;
  for (const std::string field : {"", "3:a", "line\n\0x"}) append_field(text, field);
  append_field(text, "-17");
  Fields fields(text);
  EXPECT_EQ(fields.text(), "");
  EXPECT_EQ(fields.text(), "3:a");
  EXPECT_EQ(fields.text(), "line\n");
  EXPECT_FALSE(fields.done());
  EXPECT_EQ(fields.number<std::int64_t>(), -17);
  EXPECT_TRUE(fields.done());
  EXPECT_FALSE(fields.text());
}

TEST(Fields, WhatIsNoneIsNotRead) {
  for (const std::string_view text : {"", "x", "3", "3:ab", ":a", "-1:a"}) {
    EXPECT_FALSE(Fields(text).text()) << text;
  }
  for (const std::string_view text : {"0:", "1:x", "2:1x", "3:300"}) {
    EXPECT_FALSE(Fields(text).number<std::uint8_t>()) << text;
  }
}

}  // namespace
}  // namespace swarmpi
