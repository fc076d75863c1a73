#include "commands/sweep/child.hpp"

#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

namespace swarmpi {
namespace {

EndedChild ended(const std::string& script) {
  const Result<EndedChild> child = run_child({"sh", "-c", script}, true);
  EXPECT_TRUE(child.ok()) << child.status().message();
  return child.ok() ? child.value() : EndedChild();
}

TEST(Child, TellsHowItEnded) {
  EXPECT_EQ(ended("exit 0").status, 0);
  const EndedChild failed = ended("exit 3");
  EXPECT_EQ(failed.status, 3);
  EXPECT_EQ(failed.signal, 0);
  EXPECT_FALSE(failed.stopped);
  EXPECT_EQ(how_it_ended(failed), "with status 3");
  const EndedChild killed = ended("kill -KILL $$");
  EXPECT_EQ(killed.signal, SIGKILL);
  EXPECT_EQ(how_it_ended(killed), "by signal 9");
}

TEST(Child, ThatCannotBeStartedIsAnError) {
  const Result<EndedChild> child = run_child({"/nowhere/to-be-found"});
  ASSERT_FALSE(child.ok());
  EXPECT_NE(child.status().message().find("/nowhere/to-be-found"), std::string::npos);
}

// `$PPID` is this process, which a terminal or a batch system asks to stop.
TEST(Child, IsToldOnceToStopHoweverThisProcessIsAsked) {
  for (const char* asked : {"INT", "TERM", "HUP", "USR1"}) {
    const EndedChild stopped =
        ended(std::string("trap 'exit 7' USR1; kill -") + asked + " $PPID; sleep 30 & wait");
    EXPECT_EQ(stopped.status, 7) << asked;
    EXPECT_TRUE(stopped.stopped);
  }
}

TEST(Child, IsEndedAtTheSecondTime) {
  const EndedChild ended_now =
      ended("trap 'kill -INT $PPID' USR1; kill -INT $PPID; sleep 30 & while :; do wait; done");
  EXPECT_EQ(ended_now.signal, SIGTERM);
}

TEST(Child, HasAGroupOfItsOwnAndNothingToRead) {
  EXPECT_EQ(ended("test $(ps -o pgid= $$) = $$").status, 0);
  EXPECT_EQ(ended("test $(readlink /proc/self/fd/0) = /dev/null").status, 0);
}

TEST(Child, LeavesTheSignalsOfThisProcessAsTheyWere) {
  sigset_t before, after;
  sigprocmask(SIG_SETMASK, nullptr, &before);
  ended("exit 0");
  sigprocmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) {
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  }
}

}  // namespace
}  // namespace swarmpi
