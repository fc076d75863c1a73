#include "commands/isolated.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "core/check.hpp"

namespace swarmpi {
namespace {

TEST(Isolated, ReturnsWhatTheWorkReturns) {
  const std::string long_answer(1 << 20, 'x');
  const IsolatedEnd end = run_isolated([&] { return long_answer; });
  EXPECT_EQ(end.answer, long_answer);
  EXPECT_EQ(end.crash, "");
}

TEST(Isolated, ACrashIsAnAnswerTooWithWhatWasSaid) {
  const IsolatedEnd end = run_isolated([]() -> std::string {
    SWARMPI_CHECK(1 > 2, "one is small");
    return "";
  });
  EXPECT_NE(end.crash.find("one is small"), std::string::npos) << end.crash;
  const IsolatedEnd quiet = run_isolated([]() -> std::string { std::_Exit(3); });
  EXPECT_EQ(quiet.crash, "an exit");
}

TEST(Isolated, WorkWithoutAnEndIsEnded) {
  const IsolatedEnd end = run_isolated([]() -> std::string {
    set_deadline(1);
    for (;;) pause();
  });
  EXPECT_EQ(end.crash, "it did not come to an end");
}

TEST(Isolated, SharedValuesAreSeenByBoth) {
  SharedValue<int> value;
  *value = 1;
  run_isolated([&] {
    *value += 1;
    return std::string();
  });
  EXPECT_EQ(*value, 2);
}

}  // namespace
}  // namespace swarmpi
