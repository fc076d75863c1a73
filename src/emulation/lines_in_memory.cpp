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

}  // namespace

// The memory begins with the lock; then comes each line with two states, behind each of which stand
// the backlogs. One state counts: a process that dies while it writes the other changes nothing.
// All is valid where it is 0, but for the lock.

struct LinesInMemory::Line {
  std::uint32_t counts = 0;  // which state
};

struct LinesInMemory::State {
  Nanoseconds now = 0;
  double served = 0;
  std::size_t flows = 0;

  SharedLine::Backlog* backlogs() { return reinterpret_cast<SharedLine::Backlog*>(this + 1); }
};

namespace {

constexpr std::size_t kLockBytes = aligned(sizeof(pthread_mutex_t));
constexpr std::size_t kLineBytes = aligned(sizeof(std::uint32_t));

}  // namespace

// Whoever dies with it hands it on.
class LinesInMemory::Lock {
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

// ---- The memory

namespace {

std::size_t state_bytes(std::size_t head_bytes, const LinesInMemory::Plan& plan) {
  return aligned(head_bytes + plan.most_flows * sizeof(SharedLine::Backlog));
}

std::size_t all_bytes(std::size_t head_bytes, const LinesInMemory::Plan& plan) {
  return kLockBytes + plan.mbps.size() * (kLineBytes + 2 * state_bytes(head_bytes, plan));
}

}  // namespace

LinesInMemory::LinesInMemory(Plan plan, Descriptor memory, std::byte* begin)
    : plan_(std::move(plan)), memory_(std::move(memory)), begin_(begin) {}

LinesInMemory::~LinesInMemory() { ::munmap(begin_, all_bytes(sizeof(State), plan_)); }

Result<std::unique_ptr<LinesInMemory>> LinesInMemory::make(Plan plan) {
  Descriptor memory(::memfd_create("swarmpi-lines", MFD_CLOEXEC));
  const std::size_t bytes = all_bytes(sizeof(State), plan);
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
  const std::size_t bytes = all_bytes(sizeof(State), plan);
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

std::byte* LinesInMemory::line_begin(std::size_t number) const {
  return begin_ + kLockBytes + number * (kLineBytes + 2 * state_bytes(sizeof(State), plan_));
}

LinesInMemory::Line& LinesInMemory::line(std::size_t number) const {
  return *reinterpret_cast<Line*>(line_begin(number));
}

LinesInMemory::State& LinesInMemory::state(std::size_t number, std::uint32_t which) const {
  std::byte* const first = line_begin(number) + kLineBytes;
  return *reinterpret_cast<State*>(first + which * state_bytes(sizeof(State), plan_));
}

// ---- Messages

Nanoseconds LinesInMemory::pass(std::size_t line, SharedLine::Flow flow, std::int64_t bytes,
                                const Passage& passage, const AheadBound& ahead) {
  if (plan_.mbps[line] == 0) return passage.last;
  const Lock lock(begin_, gave_up_ ? 0 : plan_.patience_s);
  gave_up_ = !lock.held();
  if (gave_up_) return passage.last;
  SharedLine carrying = load(line);
  const Nanoseconds due = carrying.pass(flow, bytes, passage, ahead);
  store(line, carrying.state());
  return due;
}

SharedLine LinesInMemory::load(std::size_t number) const {
  State& from = state(number, line(number).counts);
  return SharedLine(plan_.mbps[number],
                    {from.now, from.served, {from.backlogs(), from.backlogs() + from.flows}});
}

void LinesInMemory::store(std::size_t number, const SharedLine::State& carried) {
  const std::uint32_t other = 1 - line(number).counts;
  State& to = state(number, other);
  to.now = carried.now;
  to.served = carried.served;
  to.flows = std::min(carried.backlogs.size(), plan_.most_flows);
  std::copy_n(carried.backlogs.begin(), to.flows, to.backlogs());
  std::atomic_ref(line(number).counts).store(other, std::memory_order_release);
}

}  // namespace swarmpi
