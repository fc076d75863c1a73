#include "commands/sweep/child.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

namespace swarmpi::child_test {
namespace {

EndedChild ended(const std::string& script) {
  HeldSignals signals;
  const Result<EndedChild> child = run_child({"sh", "-c", script}, signals, true);
  EXPECT_TRUE(child.ok()) << child.status().message();
  return child.ok() ? child.value() : EndedChild();
}

/// What comes next through a pipe within 20 s.
std::string line_from(int pipe) {
  pollfd source{pipe, POLLIN, 0};
  if (poll(&source, 1, 20000) != 1) return "nothing";
  std::array<char, 64> bytes{};
  const ssize_t count = read(pipe, bytes.data(), bytes.size());
  return count < 0 ? "nothing" : std::string(bytes.data(), static_cast<std::size_t>(count));
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
  HeldSignals signals;
  const Result<EndedChild> child = run_child({"/nowhere/to-be-found"}, signals);
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
  const EndedChild ended_now = ended(
      "trap 'sleep 0.7; kill -INT $PPID' USR1; kill -INT $PPID; sleep 30 & while :; do wait; done");
  EXPECT_EQ(ended_now.signal, SIGTERM);
}

// `timeout` asks a process, and then its group.
TEST(Child, IsNotEndedByASignalThatComesTwiceAtOnce) {
  const EndedChild stopped =
      ended("trap 'kill -TERM $PPID; sleep 0.1; exit 7' USR1; kill -TERM $PPID; sleep 30 & wait");
  EXPECT_EQ(stopped.status, 7);
}

// Killed it can hand nothing on: what it has started is told by the system.
TEST(Child, IsEndedWithThisProcess) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t process = fork();
  if (process == 0) {
    const std::string told = " >&" + std::to_string(dup2(ends[1], 9));
    ended("trap 'echo told" + told + "; kill $!; exit' TERM; echo up" + told + "; sleep 30 & wait");
    _exit(0);
  }
  EXPECT_EQ(line_from(ends[0]), "up\n");
  kill(process, SIGKILL);
  EXPECT_EQ(line_from(ends[0]), "told\n");
  waitpid(process, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(Child, HasAGroupOfItsOwnAndNothingToRead) {
  EXPECT_EQ(ended("test $(ps -o pgid= $$) = $$").status, 0);
  EXPECT_EQ(ended("test $(readlink /proc/self/fd/0) = /dev/null").status, 0);
}

TEST(HeldSignals, OneThatComesBetweenTwoChildrenIsNotLost) {
  HeldSignals signals;
  EXPECT_FALSE(signals.take_stop());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    raise(signal);
    EXPECT_TRUE(signals.take_stop()) << signal;
    EXPECT_FALSE(signals.take_stop()) << signal;
  }
  raise(SIGTERM);  // which ends nobody when they are held no longer
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
}  // namespace swarmpi::child_test
