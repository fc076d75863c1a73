#include "core/virtual_time.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace swarmpi::virtual_time_test {
namespace {

TEST(VirtualTime, IsRoundedToTheNearestNanosecond) {
  EXPECT_EQ(rounded_ns(1.4), 1);
  EXPECT_EQ(rounded_ns(1.5), 2);
  EXPECT_EQ(rounded_ns(-1.6), -2);
  EXPECT_EQ(to_ns(1e-9), 1);
}

// As over a line of a bit in a century: what it carries never comes, rather than at once.
TEST(VirtualTime, DoesNotOverflow) {
  for (const double ns : {1e19, 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_GT(rounded_ns(ns), to_ns(99.0 * 365 * 24 * 3600));
    EXPECT_GT(rounded_ns(ns) + rounded_ns(ns), rounded_ns(ns)) << "two of them do not either";
  }
  EXPECT_EQ(to_ns(1e300), kNever);
}

}  // namespace
}  // namespace swarmpi::virtual_time_test
