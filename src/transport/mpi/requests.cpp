#include "transport/mpi/requests.hpp"

#include <sched.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "core/clock.hpp"

namespace swarmpi {
namespace {

constexpr std::size_t kManyRequests = 100;

bool sends(RequestKind kind) {
  return kind == RequestKind::send || kind == RequestKind::beat_send ||
         kind == RequestKind::control_send;
}

void leak(std::shared_ptr<const void> memory) {
  static auto& forever = *new std::vector<std::shared_ptr<const void>>;
  forever.push_back(std::move(memory));
}

}  // namespace

Requests::~Requests() {
  for (Entry& entry : entries_) leak(std::move(entry.memory));
}

void Requests::send(RequestKind kind, int endpoint, int tag, const std::byte* data,
                    std::size_t size_bytes, std::shared_ptr<const void> memory) {
  const auto [comm, rank] = endpoints_.at(endpoint);
  MPI_Request request = MPI_REQUEST_NULL;
  const CallWatchdog::Call call(watchdog_, "MPI_Isend");
  const int code =
      MPI_Isend(data, static_cast<int>(size_bytes), MPI_BYTE, rank, tag, comm, &request);
  add(code, request, {kind, endpoint, std::move(memory)});
}

void Requests::receive(RequestKind kind, int endpoint, int tag, std::byte* data,
                       std::size_t size_bytes, std::shared_ptr<const void> memory) {
  const auto [comm, rank] = endpoints_.at(endpoint);
  MPI_Request request = MPI_REQUEST_NULL;
  const CallWatchdog::Call call(watchdog_, "MPI_Irecv");
  const int code =
      MPI_Irecv(data, static_cast<int>(size_bytes), MPI_BYTE, rank, tag, comm, &request);
  add(code, request, {kind, endpoint, std::move(memory)});
}

void Requests::add(int code, MPI_Request request, Entry entry) {
  if (code != MPI_SUCCESS) {
    refused_.push_back({entry.kind, entry.endpoint, code, 0});
    return;
  }
  requests_.push_back(request);
  entries_.push_back(std::move(entry));
}

const std::vector<Completion>& Requests::test() {
  done_ = std::exchange(refused_, {});
  if (requests_.empty()) return done_;
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  for (MPI_Status& status : statuses_) status.MPI_ERROR = MPI_SUCCESS;
  int count = 0;
  int code = MPI_SUCCESS;
  const CallWatchdog::Call call(watchdog_, "MPI_Testsome");
  // A call that finds nothing lets MPI make progress; only another one reports the result. Where
  // it looks at hundreds of requests, a look at one of them makes progress, and takes less.
  const bool many = requests_.size() > kManyRequests;
  int one_is_complete = 0;
  if (many) MPI_Request_get_status(requests_.front(), &one_is_complete, MPI_STATUS_IGNORE);
  for (int calls = many ? 1 : 2; calls > 0 && count == 0; --calls) {
    code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                        indices_.data(), statuses_.data());
    if (count == MPI_UNDEFINED) count = 0;
  }
  for (int i = 0; i < count; ++i) {
    const int error = code == MPI_SUCCESS ? MPI_SUCCESS : statuses_[i].MPI_ERROR;
    take(static_cast<std::size_t>(indices_[i]), error, statuses_[i]);
  }
  if (count == 0) return done_;
  std::size_t kept = 0;
  std::sort(indices_.begin(), indices_.begin() + count);
  auto gone = indices_.begin();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (gone != indices_.begin() + count && static_cast<std::size_t>(*gone) == i) {
      ++gone;
      continue;
    }
    if (kept != i) {
      requests_[kept] = requests_[i];
      entries_[kept] = std::move(entries_[i]);
    }
    ++kept;
  }
  requests_.resize(kept);
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(kept), entries_.end());
  return done_;
}

void Requests::take(std::size_t index, int error, const MPI_Status& status) {
  Entry& entry = entries_[index];
  Completion done{entry.kind, entry.endpoint, error, 0};
  if (error == MPI_SUCCESS && !sends(entry.kind)) {
    int size_bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &size_bytes);
    done.size_bytes = static_cast<std::size_t>(std::max(size_bytes, 0));
  }
  // A request with an error that is not complete: MPI may still touch the memory.
  if (requests_[index] != MPI_REQUEST_NULL) leak(std::move(entry.memory));
  done_.push_back(done);
}

void Requests::give_up(double timeout_s) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (sends(entries_[i].kind)) continue;
    const CallWatchdog::Call call(watchdog_, "MPI_Cancel");
    MPI_Cancel(&requests_[i]);
  }
  const WallClock clock;
  while (!requests_.empty() && clock.now_s() < timeout_s) {
    if (test().empty()) sched_yield();
  }
}

}  // namespace swarmpi
