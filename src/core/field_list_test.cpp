#include "core/field_list.hpp"

#include <gtest/gtest.h>

#include <string>

namespace swarmpi {

struct Pair {
  int first = 1;
  std::string second = "two";
};
SWARMPI_FIELDS(Pair, first, second);

struct Nothing {};
SWARMPI_FIELDS(Nothing);

}  // namespace swarmpi

namespace swarmpi::field_list_test {
namespace {

TEST(FieldList, NamesTheTypeAndItsFieldsInOrder) {
  Pair pair;
  std::string text(kTypeName<Pair>);
  for_each_field(pair, [&]<class Field>(std::string_view name, Field& field) {
    text += " " + std::string(name);
    field = Field();
  });
  EXPECT_EQ(text, "Pair first second");
  EXPECT_EQ(pair.first, 0);
  EXPECT_EQ(pair.second, "");
}

TEST(FieldList, TheFieldsAreReferences) {
  Pair pair;
  std::get<0>(fields_of(pair)) = 5;
  EXPECT_EQ(pair.first, 5);
  const Pair& constant = pair;
  EXPECT_EQ(std::get<0>(fields_of(constant)), 5);
}

TEST(FieldList, MayBeEmpty) {
  const Nothing nothing;
  for_each_field(nothing, [](std::string_view, const auto&) { FAIL(); });
  EXPECT_EQ(kTypeName<Nothing>, "Nothing");
}

TEST(FieldList, OnlyListedTypesHaveFields) {
  static_assert(HasFields<Pair> && HasFields<const Pair>);
  static_assert(!HasFields<int> && !HasFields<std::string>);
}

}  // namespace
}  // namespace swarmpi::field_list_test
