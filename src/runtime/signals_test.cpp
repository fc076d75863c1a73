#include "runtime/signals.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "protocol/messages/process_port.hpp"

namespace swarmpi::signals_test {
namespace {

// What a stop is asked for by, after these signals, half a second and more apart.
template <class Signals>
std::string asked_by(const Signals& signals) {
  Inbox inbox;
  SignalWatch watch(inbox, true);
  watch.deliver();
  for (const int signal : signals) {
    ::kill(::getpid(), signal);
    ::usleep(static_cast<useconds_t>(1.2e6 * kSameRequestS));
  }
  pollfd arrived{inbox.descriptor(), POLLIN, 0};
  if (poll(&arrived, 1, 10'000) != 1) return "nothing";
  const std::optional<Event> event = inbox.take();
  const auto* const stop = event ? get_if<StopRequested>(&*event) : nullptr;
  return stop != nullptr ? stop->why : "another event";
}

template <class Signals>
[[noreturn]] void say(const Signals& signals) {
  std::fprintf(stderr, "%s", asked_by(signals).c_str());
  std::exit(0);
}

// In processes of their own: other tests have threads that do not block these signals.
class SignalWatchDeathTest : public ::testing::Test {
 protected:
  SignalWatchDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(SignalWatchDeathTest, AsksForAStopWhenABatchSystemGivesNotice) {
  const ::testing::ExitedWithCode well(0);
  EXPECT_EXIT(say(std::array{SIGUSR1}), well, "asked to stop .SIGUSR1.");
  EXPECT_EXIT(say(std::array{SIGUSR2}), well, "asked to stop .SIGUSR2.");
  EXPECT_EXIT(say(std::array{SIGXCPU}), well, "limit of CPU time .SIGXCPU.");
}

TEST_F(SignalWatchDeathTest, SurvivesNoticesThatFollowANotice) {
  EXPECT_EXIT(say(kNotices), ::testing::ExitedWithCode(0), "asked to stop .SIGUSR1.");
}

}  // namespace
}  // namespace swarmpi::signals_test
