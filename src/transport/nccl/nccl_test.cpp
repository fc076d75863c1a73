// Replicas in processes of their own reduce by NCCL on one GPU, and die. NCCL refuses two members
// on one device of one host, so each says that it is on a host of its own, and they speak through
// sockets: what that costs says nothing about several GPUs, how it ends does.

#include <gtest/gtest.h>

#ifndef SWARMPI_HAS_NCCL

TEST(Nccl, OnOneDevice) { GTEST_SKIP() << "this program was built without NCCL"; }

#else

#include <cuda_runtime_api.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.hpp"
#include "transport/nccl/collective.hpp"
#include "transport/nccl/library.hpp"
#include "transport/nccl/nccl_engine.hpp"

namespace swarmpi::nccl_test {
namespace {

using Outcome = CollectiveProgress::Outcome;

constexpr int kReplicas = 2;
// A test that hangs ends itself.
constexpr unsigned kLongestTestS = 90;

// Rough timings differ from machine to machine; no test waits for these when all is well.
CollectiveLimits usual_limits() {
  CollectiveLimits limits;
  limits.making_s = 40;
  limits.entering_s = 20;
  limits.piece_s = 10;
  return limits;
}

struct Pipe {
  Pipe() {
    if (::pipe(ends) != 0) std::abort();
  }
  ~Pipe() {
    ::close(ends[0]);
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int to_read() const { return ends[0]; }
  int to_write() const { return ends[1]; }
  void close_write() {
    if (ends[1] >= 0) ::close(ends[1]);
    ends[1] = -1;
  }
  int ends[2]{};
};

bool write_all(int descriptor, const void* data, std::size_t size) {
  return ::write(descriptor, data, size) == static_cast<ssize_t>(size);  // less than a pipe holds
}

// Where a replica's process sits, and how it speaks with the others.
struct Seat {
  int place = 0;
  int ids = -1;           // where replica 1 reads the communicator's id
  int ids_to_write = -1;  // and replica 0 writes it
  int to_parent = -1;     // one byte: something has happened that it waits for
};

// What a replica adds: large numbers of both signs, different in all places.
template <class T>
T value_of(int place, std::int64_t index) {
  const std::uint64_t bits = (static_cast<std::uint64_t>(index) + 1) * 0x9E3779B97F4A7C15u *
                             static_cast<std::uint64_t>(2 * place + 1);
  // Small enough for a sum of two.
  return static_cast<T>(static_cast<std::int64_t>(bits) >> (66 - 8 * sizeof(T)));
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::int64_t count) : count_(static_cast<std::size_t>(count)) {
    if (cudaMalloc(&data_, count_ * sizeof(T)) != cudaSuccess) data_ = nullptr;
  }
  T* data() const { return static_cast<T*>(data_); }
  bool upload(const std::vector<T>& values) const {
    return data_ != nullptr && cudaMemcpy(data_, values.data(), count_ * sizeof(T),
                                          cudaMemcpyHostToDevice) == cudaSuccess;
  }
  std::vector<T> download() const {
    std::vector<T> values(count_);
    if (cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost) !=
        cudaSuccess) {
      values.clear();
    }
    return values;
  }

 private:
  std::size_t count_;
  void* data_ = nullptr;  // until the process ends
};

// One replica, in its process. What goes wrong comes back in words; "" is good.
template <class T = std::int64_t>
class Replica {
 public:
  Replica(const Seat& seat, std::int64_t count, const CollectiveLimits& limits = usual_limits())
      : seat_(seat), limits_(limits), in_(count), out_(count) {
    mine_.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) mine_.push_back(value_of<T>(seat.place, i));
  }

  std::string join(int size = kReplicas) {
    if (!in_.upload(mine_)) return "no memory on the device for the sums";
    const auto library = NcclLibrary::load();
    if (!library.ok()) return library.status().message();
    CommunicatorPlan plan{{}, size, seat_.place, 0};
    std::string problem = agree_on_id(*library.value(), plan.id);
    if (!problem.empty()) return problem;
    collective_ = std::make_unique<Collective>(make_nccl_engine(*library.value()), plan, limits_);
    while (collective_->state() == CollectiveState::making) pause();
    if (collective_->is_ready()) return {};
    return "not ready: " + collective_->poll().why;
  }
  void start(std::uint64_t ticket = 1) {
    SumRequest request;
    request.in = in_.data();
    request.out = out_.data();
    request.count = static_cast<std::int64_t>(mine_.size());
    request.element = sizeof(T) == 8 ? SumElement::int64 : SumElement::int32;
    request.cover = {seat_.place + 1, ~std::uint64_t{0} - 5};
    request.ticket = ticket;
    collective_->start(request);
  }
  CollectiveProgress outcome() {
    while (true) {
      CollectiveProgress progress = collective_->poll();
      if (progress.outcome != Outcome::nothing) return progress;
      pause();
    }
  }
  std::string succeeds() {
    const CollectiveProgress progress = outcome();
    if (progress.outcome != Outcome::done) return "no result: " + progress.why;
    if (progress.cover != Cover{3, ~std::uint64_t{0} - 11}) return "another cover";
    return {};
  }
  // It has come to its end, and no kernel is left.
  std::string fails(std::string* why = nullptr) {
    const CollectiveProgress progress = outcome();
    if (progress.outcome == Outcome::done) return "a result, where none can be";
    if (why != nullptr) *why = progress.why;
    std::fprintf(stderr, "replica %d: %s\n", seat_.place, progress.why.c_str());
    while (!collective_->over()) {
      const CollectiveProgress notice = collective_->poll();
      if (notice.outcome == Outcome::left_behind) return "left behind: " + notice.why;
      pause();
    }
    return collective_->device_lost() ? "the device is lost" : "";
  }
  std::string in_is_whole() { return in_.download() == mine_ ? "" : "the sums are not whole"; }
  std::string out_is_exact() {
    const std::vector<T> out = out_.download();
    if (out.size() != mine_.size()) return "the result cannot be read";
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      if (out[i] != value_of<T>(0, index) + value_of<T>(1, index)) {
        return fmt::format("element {} is wrong: {}", i, out[i]);
      }
    }
    return {};
  }
  Collective& collective() { return *collective_; }
  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

 private:
  std::string agree_on_id(const NcclLibrary& library, CommunicatorId& id) {
    if (seat_.place != 0) {
      return ::read(seat_.ids, id.data(), id.size()) == static_cast<ssize_t>(id.size())
                 ? ""
                 : "no id from replica 0";
    }
    const WallClock clock;
    const Result<CommunicatorId> made = library.make_id();
    if (!made.ok()) return made.status().message();
    std::fprintf(stderr, "NCCL %s; an id takes %.1f ms\n", library.version().c_str(),
                 1e3 * clock.now_s());
    id = made.value();
    return write_all(seat_.ids_to_write, id.data(), id.size()) ? "" : "the id cannot be written";
  }

  Seat seat_;
  CollectiveLimits limits_;
  std::vector<T> mine_;
  DeviceArray<T> in_, out_;
  std::unique_ptr<Collective> collective_;
};

// The first of several problems.
std::string first_of(std::initializer_list<std::function<std::string()> > steps) {
  for (const auto& step : steps) {
    std::string problem = step();
    if (!problem.empty()) return problem;
  }
  return {};
}

using Story = std::function<std::string(const Seat&)>;

// A process that tells a story and ends with what went wrong in it.
class Process {
 public:
  Process(const Seat& seat, const Story& story) {
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) tell(seat, story);
    report_.close_write();
  }
  ~Process() {
    kill(SIGKILL);
    wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void kill(int signal) const {
    if (!status_) ::kill(pid_, signal);
  }
  int wait() {
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, 0) == pid_) status_ = status;
    return status_.value_or(-1);
  }
  // Waits for its end.
  std::string report() {
    std::string text;
    char buffer[512];
    for (ssize_t size = 0; (size = ::read(report_.to_read(), buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(size));
    }
    const int status = wait();
    if (WIFSIGNALED(status)) text += fmt::format("ended by signal {}", WTERMSIG(status));
    return text;
  }

 private:
  [[noreturn]] void tell(const Seat& seat, const Story& story) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(kLongestTestS);
    ::setenv("NCCL_HOSTID", ("replica-" + std::to_string(seat.place)).c_str(), 1);
    ::setenv("NCCL_P2P_DISABLE", "1", 1);
    ::setenv("NCCL_SHM_DISABLE", "1", 1);
    ::setenv("NCCL_NET", "Socket", 1);
    ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    ::setenv("NCCL_DEBUG", "WARN", 0);
    std::string problem = story(seat);
    write_all(report_.to_write(), problem.data(), std::min<std::size_t>(problem.size(), 4000));
    std::fflush(nullptr);
    ::_exit(problem.empty() ? 0 : 1);
  }

  Pipe report_;
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// "" where there is a device and NCCL. Asked in another process: CUDA does not survive a fork.
const std::string& why_not_here() {
  static const std::string why = [] {
    Process process(Seat{}, [](const Seat&) -> std::string {
      int devices = 0;
      const cudaError_t error = cudaGetDeviceCount(&devices);
      if (error != cudaSuccess) return std::string("CUDA: ") + cudaGetErrorString(error);
      if (devices == 0) return "no device";
      const auto library = NcclLibrary::load();
      return library.ok() ? "" : library.status().message();
    });
    return process.report();
  }();
  return why;
}

class NcclOnOneDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_not_here().empty()) GTEST_SKIP() << "needs a GPU and NCCL: " << why_not_here();
  }
  void start(const Story& story) {
    Seat seat;
    seat.place = static_cast<int>(replicas_.size());
    seat.ids = ids_.to_read();
    seat.ids_to_write = ids_.to_write();
    seat.to_parent = words_.to_write();
    replicas_.push_back(std::make_unique<Process>(seat, story));
  }
  void start_all(const Story& story) {
    for (int i = 0; i < kReplicas; ++i) start(story);
  }
  // Until a replica says that it is so far.
  bool await_word() const {
    pollfd ready{words_.to_read(), POLLIN, 0};
    char word = 0;
    return ::poll(&ready, 1, static_cast<int>(1000 * kLongestTestS)) == 1 &&
           ::read(words_.to_read(), &word, 1) == 1;
  }
  // Until replica 0, which hears of the end of the other, has come to its own.
  void expect_end(const char* what) const {
    const WallClock clock;
    EXPECT_TRUE(await_word());
    std::printf("%s: the other's communicator had come to its end after %.0f ms\n", what,
                1e3 * clock.now_s());
    EXPECT_EQ(replicas_[0]->report(), "");
  }

  Pipe ids_, words_;
  std::vector<std::unique_ptr<Process> > replicas_;
};

constexpr std::int64_t kGigabyte = 1'000'000'000 / 8;

template <class T>
std::string reduces_exactly(const Seat& seat) {
  Replica<T> replica(seat, 40'000'007);
  return first_of({
      [&] { return replica.join(); },
      [&] {
        replica.start();
        return replica.succeeds();
      },
      [&] { return replica.out_is_exact(); },
      [&] { return replica.in_is_whole(); },
      [&] { return replica.collective().end(20) ? "" : "its end hangs"; },
  });
}

TEST_F(NcclOnOneDevice, TwoReplicasGetTheExactSumsAndKeepTheirOwn) {
  start_all(reduces_exactly<std::int64_t>);
  for (const auto& replica : replicas_) EXPECT_EQ(replica->report(), "");
}

TEST_F(NcclOnOneDevice, PackedSumsAreExactToo) {
  start_all(reduces_exactly<std::int32_t>);
  for (const auto& replica : replicas_) EXPECT_EQ(replica->report(), "");
}

// Reduces two gigabytes, and says when it is in the middle. It is to fail.
std::string fails_in_the_middle(const Seat& seat) {
  CollectiveLimits limits = usual_limits();
  limits.piece_s = 1;
  Replica replica(seat, 2 * kGigabyte, limits);
  std::string problem = replica.join();
  if (!problem.empty()) return problem;
  replica.start();
  while (replica.collective().times().pieces < 3 &&
         replica.collective().state() == CollectiveState::running) {
    replica.pause();
  }
  const bool in_the_middle = replica.collective().state() == CollectiveState::running;
  const auto say = [&] {
    if (seat.place == 0) write_all(seat.to_parent, ".", 1);
    return "";
  };
  say();
  return first_of({
      [&] { return in_the_middle ? "" : "it has ended before its middle"; },
      [&] { return replica.fails(); },
      say,
      [&] { return replica.in_is_whole(); },
      [&] {
        std::fprintf(stderr, "replica %d: %lld pieces were through; the abort took %.0f ms\n",
                     seat.place, static_cast<long long>(replica.collective().times().pieces),
                     1e3 * replica.collective().times().abort_s);
        return "";
      },
  });
}

TEST_F(NcclOnOneDevice, AReplicaThatIsKilledInTheMiddleEndsTheOtherByAbortAndItsSumsAreWhole) {
  start_all(fails_in_the_middle);
  ASSERT_TRUE(await_word());
  const WallClock clock;
  replicas_[1]->kill(SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(replicas_[1]->wait()));
  std::printf("killed: the process was gone after %.0f ms\n", 1e3 * clock.now_s());
  expect_end("killed");
}

TEST_F(NcclOnOneDevice, AReplicaThatStopsInTheMiddleEndsTheOtherByItsDeadlineAndFailsItself) {
  start_all(fails_in_the_middle);
  ASSERT_TRUE(await_word());
  replicas_[1]->kill(SIGSTOP);
  expect_end("stopped");
  replicas_[1]->kill(SIGCONT);
  EXPECT_EQ(replicas_[1]->report(), "");
}

TEST_F(NcclOnOneDevice, WhereAReplicaNeverEntersTheOtherEndsByItsDeadlineAndItsSumsAreWhole) {
  start([](const Seat& seat) {
    CollectiveLimits limits = usual_limits();
    limits.entering_s = 0.5;
    Replica replica(seat, kGigabyte, limits);
    std::string why;
    return first_of({
        [&] { return replica.join(); },
        [&] {
          const WallClock clock;
          replica.start();
          std::string problem = replica.fails(&why);
          std::fprintf(stderr, "never entered: aborted after %.0f ms, of which the abort %.0f\n",
                       1e3 * clock.now_s(), 1e3 * replica.collective().times().abort_s);
          return problem;
        },
        [&] { return why.find("has waited 0.5 s for piece 1 of") != why.npos ? "" : why; },
        [&] { return replica.in_is_whole(); },
    });
  });
  start([](const Seat& seat) {
    Replica replica(seat, kGigabyte);
    std::string problem = replica.join();
    if (!problem.empty()) return problem;
    // Whether it hears of the other's abort is the library's business: the protocol tells it.
    const WallClock clock;
    while (clock.now_s() < 4 && replica.collective().is_ready()) replica.pause();
    std::fprintf(stderr, "never entered: the replica that has not %s after %.1f s\n",
                 replica.collective().is_ready() ? "has heard nothing" : "has heard of it",
                 clock.now_s());
    replica.collective().abort("replica 0 has aborted");
    return replica.fails();
  });
  for (const auto& replica : replicas_) EXPECT_EQ(replica->report(), "");
}

TEST_F(NcclOnOneDevice, WhereAReplicaNeverJoinsTheOtherEndsByItsDeadline) {
  start([](const Seat& seat) -> std::string {
    CollectiveLimits limits = usual_limits();
    limits.making_s = 2;
    Replica replica(seat, 1000, limits);
    std::string problem = replica.join();
    if (problem.find("not all have joined") == problem.npos) return "what happened: " + problem;
    while (!replica.collective().over() && !replica.collective().left_behind()) {
      replica.collective().poll();
      replica.pause();
    }
    std::fprintf(stderr, "never joined: the abort took %.0f ms\n",
                 1e3 * replica.collective().times().abort_s);
    return replica.collective().over() ? replica.in_is_whole() : "left behind";
  });
  EXPECT_EQ(replicas_[0]->report(), "");
}

TEST_F(NcclOnOneDevice, TakesSoLongForAGigabyte) {
  start_all([](const Seat& seat) {
    Replica replica(seat, kGigabyte);
    std::string problem = replica.join();
    for (std::uint64_t ticket = 1; ticket <= 3 && problem.empty(); ++ticket) {
      replica.start(ticket);
      problem = replica.succeeds();
      const CollectiveTimes times = replica.collective().times();
      if (seat.place != 0) continue;
      std::fprintf(stderr,
                   "1 GB: %.0f ms, %.2f GB/s; the longest piece of 32 MiB %.1f ms; "
                   "making took %.0f ms\n",
                   1e3 * times.reduction_s, 1 / times.reduction_s, 1e3 * times.longest_piece_s,
                   1e3 * times.making_s);
    }
    if (problem.empty() && !replica.collective().end(20)) problem = "its end hangs";
    return problem;
  });
  for (const auto& replica : replicas_) EXPECT_EQ(replica->report(), "");
}

}  // namespace
}  // namespace swarmpi::nccl_test

#endif
