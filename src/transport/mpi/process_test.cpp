#include "transport/mpi/process.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "core/archive.hpp"

namespace swarmpi {
namespace {

// A child that does nothing for ever.
class Child {
 public:
  Child() : id_(fork()) {
    if (id_ != 0) return;
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

TEST(Process, IsReadAsItWasPacked) {
  const Process mine = this_process();
  const Process same = unpack_process(to_bytes(mine));
  EXPECT_EQ(same.host, mine.host);
  EXPECT_EQ(same.id, getpid());
  EXPECT_EQ(same.started, mine.started);
  EXPECT_GT(mine.started, 0);
  EXPECT_EQ(unpack_process("what is this").host, "");
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

TEST(Process, OfAnotherHostItIsOutOfReach) {
  Child child;
  Process elsewhere = child.named();
  elsewhere.host = "elsewhere" + elsewhere.host;
  EXPECT_FALSE(kill_process(elsewhere));
  EXPECT_FALSE(kill_process(Process()));
  EXPECT_EQ(waitpid(child.id(), nullptr, WNOHANG), 0);
}

}  // namespace
}  // namespace swarmpi
