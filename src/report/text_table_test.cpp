#include "report/text_table.hpp"

#include <gtest/gtest.h>

namespace swarmpi::text_table_test {
namespace {

const std::vector<std::vector<std::string>> kRuns = {
    {"run", "steps", "loss"}, {"runs/a", "300", "2.5"}, {"b", "12", "12.25"}};

TEST(TextTable, AlignsTheFirstColumnToTheLeftAndNumbersToTheRight) {
  EXPECT_EQ(text_table(kRuns, 80),
            "run     steps   loss\n"
            "runs/a    300    2.5\n"
            "b          12  12.25\n");
}

TEST(TextTable, WhatDoesNotFitStandsBelow) {
  const std::string narrow =
      "run     steps\n"
      "runs/a    300\n"
      "b          12\n"
      "\n"
      "run      loss\n"
      "runs/a    2.5\n"
      "b       12.25\n";
  EXPECT_EQ(text_table(kRuns, 19), narrow);
  EXPECT_EQ(text_table(kRuns, 3), narrow) << "a column is never broken";
}

TEST(TextTable, OfNothing) {
  EXPECT_EQ(text_table({}, 80), "");
  EXPECT_EQ(text_table({{"run"}, {"a"}}, 80), "run\na\n");
}

}  // namespace
}  // namespace swarmpi::text_table_test
