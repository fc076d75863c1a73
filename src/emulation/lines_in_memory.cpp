#include "emulation/lines_in_memory.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

namespace swarmpi {
namespace {

// What is written by different processes stands in different cache lines.
constexpr std::size_t kAlignment = 64;
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// By the clock of pthread_mutex_timedlock(): when it is set, a wait takes longer or shorter once.
timespec in(double seconds) {
  constexpr long kSecondNs = 1'000'000'000;
  timespec then{};
  clock_gettime(CLOCK_REALTIME, &then);
  const Nanoseconds at = then.tv_nsec + to_ns(seconds);
  then.tv_sec += at / kSecondNs;
  then.tv_nsec = at % kSecondNs;
  return then;
}

Status lines_error(const std::string& doing, int error) {
  return Status::failed(fmt::format("lines that peers share: {}: {}", doing, std::strerror(error)));
}

// The memory begins with the lock; then comes each line with two states, behind each of which stand
// the backlogs. One state counts: a process that dies while it writes the other changes nothing.
// All is valid where it is 0, but for the lock.

struct Line {
  std::uint32_t counts = 0;  // which state
};

struct State {
  Nanoseconds now = 0;
  double served = 0;
  std::size_t flows = 0;

  SharedLine::Backlog* backlogs() { return reinterpret_cast<SharedLine::Backlog*>(this + 1); }
};

constexpr std::size_t kLockBytes = aligned(sizeof(pthread_mutex_t));

std::size_t state_bytes(const LinesInMemory::Plan& plan) {
  return aligned(sizeof(State) + plan.most_flows * sizeof(SharedLine::Backlog));
}

std::size_t line_bytes(const LinesInMemory::Plan& plan) {
  return aligned(sizeof(Line)) + 2 * state_bytes(plan);
}

std::size_t all_bytes(const LinesInMemory::Plan& plan) {
  return kLockBytes + plan.mbps.size() * line_bytes(plan);
}

// A line of the memory that begins there.
class LineInMemory {
 public:
  LineInMemory(std::byte* memory, std::size_t number, const LinesInMemory::Plan& plan)
      : begin_(memory + kLockBytes + number * line_bytes(plan)), plan_(plan) {}

  SharedLine::State load() const {
    State& from = state(line().counts);
    return {from.now, from.served, {from.backlogs(), from.backlogs() + from.flows}};
  }
  void store(const SharedLine::State& carried) const {
    const std::uint32_t other = 1 - line().counts;
    State& to = state(other);
    to.now = carried.now;
    to.served = carried.served;
    to.flows = std::min(carried.backlogs.size(), plan_.most_flows);
    std::copy_n(carried.backlogs.begin(), to.flows, to.backlogs());
    std::atomic_ref(line().counts).store(other, std::memory_order_release);
  }

 private:
  Line& line() const { return *reinterpret_cast<Line*>(begin_); }
  State& state(std::uint32_t which) const {
    std::byte* const first = begin_ + aligned(sizeof(Line));
    return *reinterpret_cast<State*>(first + which * state_bytes(plan_));
  }

  std::byte* begin_;
  const LinesInMemory::Plan& plan_;
};

// Whoever dies with it hands it on.
class Lock {
 public:
  Lock(std::byte* memory, double patience_s) : mutex_(reinterpret_cast<pthread_mutex_t*>(memory)) {
    const timespec until = in(patience_s);
    int error = pthread_mutex_timedlock(mutex_, &until);
    if (error == EOWNERDEAD) error = pthread_mutex_consistent(mutex_);
    if (error != 0) mutex_ = nullptr;
  }
  ~Lock() {
    if (mutex_ != nullptr) pthread_mutex_unlock(mutex_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  bool held() const { return mutex_ != nullptr; }

  /// Once, in new memory.
  static int make(std::byte* memory) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    const int error = pthread_mutex_init(reinterpret_cast<pthread_mutex_t*>(memory), &kind);
    pthread_mutexattr_destroy(&kind);
    return error;
  }

 private:
  pthread_mutex_t* mutex_;
};

}  // namespace

LinesInMemory::LinesInMemory(Plan plan, Descriptor memory, std::byte* begin)
    : plan_(std::move(plan)), memory_(std::move(memory)), begin_(begin) {}

LinesInMemory::~LinesInMemory() { ::munmap(begin_, all_bytes(plan_)); }

Result<std::unique_ptr<LinesInMemory>> LinesInMemory::make(Plan plan) {
  Descriptor memory(::memfd_create("swarmpi-lines", MFD_CLOEXEC));
  const std::size_t bytes = all_bytes(plan);
  if (!memory.valid() || ::ftruncate(memory.number(), static_cast<off_t>(bytes)) != 0) {
    return lines_error("no memory for them", errno);
  }
  Result<std::unique_ptr<LinesInMemory>> made = map(std::move(plan), std::move(memory));
  if (!made.ok()) return made;
  if (const int error = Lock::make(made.value()->begin_); error != 0) {
    return lines_error("no lock for them", error);
  }
  return made;
}

Result<std::unique_ptr<LinesInMemory>> LinesInMemory::find(Plan plan, const std::string& address) {
  Descriptor memory = Descriptor::open(address, O_RDWR);
  if (!memory.valid()) return lines_error(address + " cannot be opened", errno);
  return map(std::move(plan), std::move(memory));
}

Result<std::unique_ptr<LinesInMemory>> LinesInMemory::map(Plan plan, Descriptor memory) {
  const std::size_t bytes = all_bytes(plan);
  struct stat is {};
  if (::fstat(memory.number(), &is) != 0) return lines_error("their size is not known", errno);
  if (is.st_size != static_cast<off_t>(bytes)) {
    return Status::failed(
        fmt::format("lines that peers share: {} bytes where {} were to be", is.st_size, bytes));
  }
  void* const begin =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.number(), 0);
  if (begin == MAP_FAILED) return lines_error("they cannot be mapped", errno);
  return std::unique_ptr<LinesInMemory>(
      new LinesInMemory(std::move(plan), std::move(memory), static_cast<std::byte*>(begin)));
}

std::string LinesInMemory::address() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), memory_.number());
}

Nanoseconds LinesInMemory::pass(std::size_t line, SharedLine::Flow flow, std::int64_t bytes,
                                const Passage& passage, const AheadBound& ahead) {
  if (plan_.mbps[line] == 0) return passage.last;
  const Lock lock(begin_, gave_up_ ? 0 : plan_.patience_s);
  gave_up_ = !lock.held();
  if (gave_up_) return passage.last;
  const LineInMemory place(begin_, line, plan_);
  SharedLine carrying(plan_.mbps[line], place.load());
  const Nanoseconds due = carrying.pass(flow, bytes, passage, ahead);
  place.store(carrying.state());
  return due;
}

}  // namespace swarmpi
