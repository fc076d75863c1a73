#include "transport/mpi/call_watchdog.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace swarmpi::call_watchdog_test {
namespace {

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

TEST(CallWatchdogDeathTest, ACallThatDoesNotComeBackIsNamedAndEndsTheProcessBySignal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CallWatchdog watchdog;
        watchdog.set_rank(3);
        const CallWatchdog::Call call(watchdog, "MPI_Hang", 1);
        pause(30);
      },
      testing::KilledBySignal(SIGKILL), "rank 3 has been in MPI_Hang for 1 s");
}

TEST(CallWatchdog, ManyShortCallsAreNotALongOne) {
  CallWatchdog watchdog;
  for (int i = 0; i < 14; ++i) {
    const CallWatchdog::Call call(watchdog, "MPI_Short", 0.75);
    pause(0.1);
  }
}

TEST(CallWatchdog, TimeBetweenCallsIsFree) {
  CallWatchdog watchdog;
  { const CallWatchdog::Call call(watchdog, "MPI_Short", 0.75); }
  pause(1.3);
}

}  // namespace
}  // namespace swarmpi::call_watchdog_test
