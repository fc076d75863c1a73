#include "transport/mpi/process.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "core/archive.hpp"

namespace swarmpi::process_test {
namespace {

// A child that does nothing for ever.
class Child {
 public:
  explicit Child(const std::function<void()>& work = [] {}) : id_(fork()) {
    if (id_ != 0) return;
    work();
    while (true) pause();
  }
  ~Child() {
    if (id_ > 0) kill(id_, SIGKILL);
    wait_for();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t id() const { return id_; }
  /// The signal that it died of.
  int wait_for() {
    int status = 0;
    if (id_ <= 0 || waitpid(id_, &status, 0) != id_) return 0;
    id_ = 0;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  /// As it would name itself.
  Process named() const {
    Process process = this_process();
    std::FILE* stat = std::fopen(("/proc/" + std::to_string(id_) + "/stat").c_str(), "r");
    long long started = 0;
    EXPECT_EQ(std::fscanf(stat,
                          "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d "
                          "%*d %*d %*d %*d %*d %lld",
                          &started),
              1);
    std::fclose(stat);
    process.id = id_;
    process.started = started;
    return process;
  }

 private:
  pid_t id_;
};

// What a child does that is this program with another command line: nothing, before any test.
constexpr const char* kNamesake = "SWARMPI_TEST_NAMESAKE";
[[maybe_unused]] const bool kIsNoNamesake = [] {
  while (std::getenv(kNamesake) != nullptr) pause();
  return true;
}();

class Namesake : public Child {
 public:
  explicit Namesake(const std::string& last_argument) : Child([&] { become(last_argument); }) {
    while (command_line().find(last_argument) == std::string::npos) usleep(1000);
  }

 private:
  static void become(const std::string& last_argument) {
    setenv(kNamesake, "1", 1);
    execl("/proc/self/exe", "transport_test", last_argument.c_str(), nullptr);
  }
  std::string command_line() const {
    std::ifstream file("/proc/" + std::to_string(id()) + "/cmdline");
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

// From here on this process is refused handles of processes (pidfd_open) with this error, as by an
// old kernel or in a container.
bool refuse_handles(int error) {
  constexpr unsigned kPidfdOpen = 434;
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kPidfdOpen, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// What kill_process() returns in a process that is refused handles.
bool kills_without_handles(const Process& process, int error) {
  constexpr int kNoFilter = 2;
  const pid_t killer = fork();
  if (killer == 0) _exit(!refuse_handles(error) ? kNoFilter : kill_process(process) ? 1 : 0);
  int status = 0;
  EXPECT_EQ(waitpid(killer, &status, 0), killer);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_NE(WEXITSTATUS(status), kNoFilter) << "the kernel takes no filter of system calls";
  return WEXITSTATUS(status) == 1;
}

TEST(Process, IsReadAsItWasPacked) {
  const Process mine = this_process();
  const Process same = unpack_process(to_bytes(mine));
  EXPECT_EQ(same.host, mine.host);
  EXPECT_EQ(same.id, getpid());
  EXPECT_EQ(same.started, mine.started);
  EXPECT_GT(mine.started, 0);
  EXPECT_EQ(unpack_process("what is this").host, "");
}

TEST(Process, RunsNoMoreOnceItWasKilled) {
  Child child;
  EXPECT_FALSE(runs_no_more(child.named()));
  ASSERT_EQ(kill(child.id(), SIGSTOP), 0);
  EXPECT_FALSE(runs_no_more(child.named())) << "it may go on";
  ASSERT_TRUE(kill_process(child.named()));
  for (int i = 0; i < 1000 && !runs_no_more(child.named()); ++i) usleep(1000);
  EXPECT_TRUE(runs_no_more(child.named())) << "nobody has waited for it yet";
}

TEST(Process, WhoseNumberAnotherHasByNowRunsNoMore) {
  Process before = this_process();
  EXPECT_FALSE(runs_no_more(before));
  --before.started;
  EXPECT_TRUE(runs_no_more(before));
}

TEST(Process, AThreadInACallThatHangsRunsNoMoreOnceItWasKilled) {
  // Field 3 is the state, 9 the flags, 31 the pending signals.
  const auto stat = [](char state, int flags, int pending) {
    return "7 (a ) name) " + std::string(1, state) + " 1 1 1 0 -1 " + std::to_string(flags) +
           " 0 0 0 0 5 6 0 0 20 0 2 0 99 1 1 1 1 1 1 1 1 " + std::to_string(pending) + " 0 0\n";
  };
  constexpr int kKilled = 256, kInterrupted = 2, kExits = 4;
  EXPECT_TRUE(thread_runs_no_more(stat('D', 0, kKilled)));
  EXPECT_FALSE(thread_runs_no_more(stat('D', 0, kInterrupted))) << "it may come back";
  EXPECT_FALSE(thread_runs_no_more(stat('R', 0, kKilled))) << "not yet";
  EXPECT_TRUE(thread_runs_no_more(stat('D', kExits, 0))) << "it hangs as it closes its files";
  EXPECT_TRUE(thread_runs_no_more(stat('Z', 0, 0)));
  EXPECT_FALSE(thread_runs_no_more(""));
}

TEST(Process, OfAnotherHostNobodyKnows) {
  Process other = this_process();
  other.host = "elsewhere";
  EXPECT_FALSE(runs_no_more(other));
}

TEST(Process, OneThatIsStoppedCanBeKilled) {
  Child child;
  kill(child.id(), SIGSTOP);
  EXPECT_TRUE(kill_process(child.named()));
  EXPECT_EQ(child.wait_for(), SIGKILL);
}

TEST(Process, AnotherThatHasItsIdByNowIsLeftAlone) {
  Child child;
  Process before = child.named();
  before.started -= 1;
  EXPECT_TRUE(kill_process(before)) << "it is gone";
  EXPECT_EQ(waitpid(child.id(), nullptr, WNOHANG), 0) << "the other lives";
}

// Where /proc does not tell when processes began, none can be told from one that has its id now.
TEST(Process, OfWhichItIsNotKnownWhenItBeganIsLeftAlone) {
  Child child;
  Process unknown = child.named();
  unknown.started = -1;
  EXPECT_FALSE(kill_process(unknown));
  EXPECT_EQ(waitpid(child.id(), nullptr, WNOHANG), 0) << "it lives";
}

TEST(Process, ThatHasEndedCountsAsKilled) {
  Process ended;
  {
    Child child;
    ended = child.named();
    kill(child.id(), SIGKILL);
    EXPECT_EQ(child.wait_for(), SIGKILL);
  }
  EXPECT_TRUE(kill_process(ended));
}

// Linux before 5.3, filters of system calls, or too many open files.
TEST(Process, WithoutHandlesOfProcessesItIsKilledByItsNumberAndStart) {
  for (const int error : {ENOSYS, EPERM, EMFILE}) {
    Child child;
    kill(child.id(), SIGSTOP);
    ASSERT_TRUE(kills_without_handles(child.named(), error)) << error;
    EXPECT_EQ(child.wait_for(), SIGKILL) << error;
  }
}

TEST(Process, WithoutHandlesOnlyTheOneThatIsMeantIsKilled) {
  Process ended;
  {
    Child child;
    ended = child.named();
  }
  EXPECT_TRUE(kills_without_handles(ended, ENOSYS)) << "it has ended";
  Child child;
  Process before = child.named();
  before.started -= 1;
  EXPECT_TRUE(kills_without_handles(before, ENOSYS)) << "another has its id";
  Process unknown = child.named();
  unknown.started = -1;
  EXPECT_FALSE(kills_without_handles(unknown, ENOSYS)) << "nobody knows which has it";
  EXPECT_EQ(waitpid(child.id(), nullptr, WNOHANG), 0) << "the other lives";
}

// The kernel says so of an id that is a process's no more, though something still has it.
TEST(Process, ThatIsJustEndingCountsAsKilled) {
  Child child;
  EXPECT_TRUE(kills_without_handles(child.named(), EINVAL));
  EXPECT_EQ(waitpid(child.id(), nullptr, WNOHANG), 0) << "nobody was killed by its number";
}

TEST(Process, IsFoundByItsLastArgument) {
  const std::string mine = "started-by-" + std::to_string(getpid());
  Namesake meant(mine);
  Namesake other(mine + "-too");
  kill(meant.id(), SIGSTOP);
  kill_processes_with(mine);
  EXPECT_EQ(meant.wait_for(), SIGKILL);
  EXPECT_EQ(waitpid(other.id(), nullptr, WNOHANG), 0) << "it lives";
}

TEST(Process, OfAnotherHostItIsOutOfReach) {
  Child child;
  Process elsewhere = child.named();
  elsewhere.host = "elsewhere" + elsewhere.host;
  EXPECT_FALSE(kill_process(elsewhere));
  EXPECT_FALSE(kill_process(Process()));
  EXPECT_EQ(waitpid(child.id(), nullptr, WNOHANG), 0);
}

}  // namespace
}  // namespace swarmpi::process_test
