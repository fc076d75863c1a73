#include "emulation/lines_in_memory.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "core/clock.hpp"

namespace swarmpi::lines_in_memory_test {
namespace {

constexpr std::int64_t kMegabyte = 1'000'000;  // takes 80 ms at 100 Mbit/s
constexpr Nanoseconds kMs = 1'000'000;
const LinesInMemory::Plan kPlan{{100, 0}, 16, 1};  // the second line has no bound

using Lines = std::unique_ptr<LinesInMemory>;

Lines made() { return LinesInMemory::make(kPlan).value(); }

// When a megabyte of the flow has passed the line that comes to it now.
Nanoseconds passed(LinesInMemory& lines, SharedLine::Flow flow, Nanoseconds now,
                   std::size_t line = 0) {
  return lines.pass(line, flow, kMegabyte, {now, now}, {});
}

double seconds_of(const std::function<void()>& call) {
  const WallClock clock;
  call();
  return clock.now_s();
}

constexpr std::int64_t kPieceBytes = 1000;  // takes 80 us

// A process that has pieces of several flows pass in turns, without a pause.
class Sender {
 public:
  static constexpr SharedLine::Flow kFlows = 4;

  explicit Sender(LinesInMemory& lines) : pid_(::fork()) {
    EXPECT_GE(pid_, 0);
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (SharedLine::Flow turn = 0;; ++turn) lines.pass(0, turn % kFlows, kPieceBytes, {0, 0}, {});
  }
  ~Sender() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void go_on() {
    if (pid_ > 0) ::kill(pid_, SIGCONT);
  }

 private:
  pid_t pid_;
};

// Whether the line is as a Sender leaves it between two pieces: its flows have as many each, but
// for one more of those whose turn has been.
void expect_whole(LinesInMemory& lines) {
  std::vector<Nanoseconds> ends;
  for (SharedLine::Flow flow = 0; flow < Sender::kFlows; ++flow) {
    ends.push_back(lines.pass(0, flow, 0, {0, 0}, {}));
  }
  constexpr Nanoseconds kPiece = 80'000;
  const auto [least, most] = std::minmax_element(ends.begin(), ends.end());
  const auto more = std::count(ends.begin(), ends.end(), *most);
  EXPECT_EQ(*least % (kPiece * static_cast<Nanoseconds>(Sender::kFlows)), 0);
  if (*most != *least) {
    EXPECT_EQ(*most - *least, more * kPiece);
  }
}

void wait_a_little(int turn) {
  std::this_thread::sleep_for(std::chrono::microseconds(200 + 37 * turn));
}

TEST(LinesInMemory, WhoeverHasThemMappedSharesTheLine) {
  const Lines one = made();
  const Lines other = LinesInMemory::find(kPlan, one->address()).value();
  EXPECT_EQ(passed(*one, 1, 0), 80 * kMs);
  EXPECT_EQ(passed(*other, 2, 0), 160 * kMs) << "two flows share it evenly";
  EXPECT_EQ(passed(*one, 1, 1000 * kMs), 1080 * kMs) << "all has passed";
}

TEST(LinesInMemory, AProcessSeesWhatAnotherHasSent) {
  const Lines lines = made();
  const std::string address = lines->address();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto found = LinesInMemory::find(kPlan, address);
    ::_exit(found.ok() && passed(*found.value(), 1, 0) == 80 * kMs ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(passed(*lines, 2, 0), 160 * kMs);
}

TEST(LinesInMemory, ALineWithoutBoundTakesNoTime) { EXPECT_EQ(passed(*made(), 1, 5, 1), 5); }

TEST(LinesInMemory, OfTooManyFlowsTheLineForgetsThoseThatEndLast) {
  const Lines lines = made();
  for (SharedLine::Flow flow = 0; flow < 40; ++flow) passed(*lines, flow, 0);
  EXPECT_LE(passed(*lines, 100, 0), 17 * 80 * kMs);
}

TEST(LinesInMemory, TheyAreFoundOnlyWhereTheyAreAndAsLargeAsTheyAre) {
  const auto nowhere = LinesInMemory::find(kPlan, "/proc/self/fd/9999");
  EXPECT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.status().message().find("/proc/self/fd/9999"), std::string::npos);
  const Lines lines = made();
  EXPECT_FALSE(LinesInMemory::find({{100}, 16}, lines->address()).ok());
}

TEST(LinesInMemory, AProcessMayBeKilledAtAnyInstant) {
  for (int turn = 0; turn < 60; ++turn) {
    const Lines lines = made();
    {
      const Sender sender(*lines);
      wait_a_little(turn);
    }
    expect_whole(*lines);
  }
}

// It has the lock in its hands most of the time.
TEST(LinesInMemory, AProcessThatIsStoppedIsWaitedForOnce) {
  const Lines lines = made();
  Sender sender(*lines);
  bool held = false;
  for (int turn = 0; turn < 100 && !held; ++turn) {
    wait_a_little(turn);
    sender.stop();
    const double first_s = seconds_of([&] { passed(*lines, 1, 0); });
    EXPECT_LT(first_s, 5);
    held = first_s > 0.5;
    if (held) {
      EXPECT_LT(seconds_of([&] { EXPECT_EQ(passed(*lines, 1, 7), 7); }), 0.5) << "not again";
    }
    sender.go_on();
  }
  EXPECT_TRUE(held) << "it never had the lock";
  const Nanoseconds later = 1'000'000 * kMs;
  for (int turn = 0; turn < 1000 && passed(*lines, 1, later * (1 + turn)) == later * (1 + turn);
       ++turn) {
    wait_a_little(turn);
  }
  EXPECT_GT(passed(*lines, 2, later * 2000), later * 2000) << "it has gone on";
}

}  // namespace
}  // namespace swarmpi::lines_in_memory_test
