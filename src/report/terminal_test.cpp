#include "report/terminal.hpp"

#include <gtest/gtest.h>

namespace swarmpi::terminal_test {
namespace {

TEST(Wrapped, BreaksAtBlanksBeforeTheWidth) {
  EXPECT_EQ(wrapped("the seal decides what counts", 10), "the seal\ndecides\nwhat\ncounts");
  EXPECT_EQ(wrapped("the seal decides what counts", 80), "the seal decides what counts");
  EXPECT_EQ(wrapped("exactly ten", 11), "exactly ten");
  EXPECT_EQ(wrapped("exactly ten", 10), "exactly\nten");
  EXPECT_EQ(wrapped("", 10), "");
}

TEST(Wrapped, LinesAfterTheFirstAreIndented) {
  EXPECT_EQ(wrapped("Swarm: two stages on two peers", 16, 2),
            "Swarm: two\n  stages on two\n  peers");
}

TEST(Wrapped, TheFirstLineMayBeBegunAlready) {
  EXPECT_EQ("swarm   " + wrapped("two stages on two peers", 20, 8, 8),
            "swarm   two stages\n        on two peers");
}

TEST(Wrapped, ALongWordKeepsALineToItself) {
  EXPECT_EQ(wrapped("see /a/very/long/path/to/RUN.h5 there", 8),
            "see\n/a/very/long/path/to/RUN.h5\nthere");
}

TEST(Wrapped, CountsCharactersNotBytes) {
  EXPECT_EQ(shown_width("größer"), 6u);
  EXPECT_EQ(wrapped("größer größer", 13), "größer größer");
}

TEST(Folded, BreaksOnlyLinesThatAreTooLong) {
  EXPECT_EQ(folded("peers   2  3\nverdict invalid: it has diverged\n", 20, 8),
            "peers   2  3\nverdict invalid: it\n        has diverged\n");
}

TEST(Folded, KeepsTheBlanksBetweenColumns) {
  EXPECT_EQ(folded("loss  1.5   2.5   nats per token\n", 26, 6),
            "loss  1.5   2.5   nats per\n      token\n");
}

TEST(Folded, ALongWordStaysWhole) {
  EXPECT_EQ(folded("file  /a/very/long/path/to/RUN.h5 there\n", 12, 6),
            "file  /a/very/long/path/to/RUN.h5\n      there\n");
  EXPECT_EQ(folded("x     /a/very/long/path/to/RUN.h5\n", 4, 6),
            "x     /a/very/long/path/to/RUN.h5\n");
}

TEST(Terminal, WhatIsNoneHasTheUsualWidth) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(terminal_columns(file), 80u);
  EXPECT_GT(unbroken_columns(file), 1000000u);
  EXPECT_FALSE(can_renew_lines(file));
  std::fclose(file);
}

}  // namespace
}  // namespace swarmpi::terminal_test
