#include "commands/isolated.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "core/check.hpp"

namespace swarmpi::isolated_test {
namespace {

TEST(Isolated, ReturnsWhatTheWorkReturns) {
  const std::string long_answer(1 << 20, 'x');
  const IsolatedResult result = run_isolated([&] { return long_answer; });
  EXPECT_EQ(result.answer, long_answer);
  EXPECT_EQ(result.crash, "");
}

TEST(Isolated, ACrashIsAnAnswerTooWithWhatWasSaid) {
  const IsolatedResult result = run_isolated([]() -> std::string {
    SWARMPI_CHECK(1 > 2, "one is small");
    return "";
  });
  EXPECT_NE(result.crash.find("one is small"), std::string::npos) << result.crash;
  const IsolatedResult quiet = run_isolated([]() -> std::string { std::_Exit(3); });
  EXPECT_EQ(quiet.crash, "exit status 3");
}

TEST(Isolated, WorkWithoutAnEndIsEnded) {
  const IsolatedResult result = run_isolated([]() -> std::string {
    set_deadline(1);
    for (;;) pause();
  });
  EXPECT_EQ(result.crash, "deadline exceeded");
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
}  // namespace swarmpi::isolated_test
