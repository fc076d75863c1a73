#include "kernels/cuda/boundary_copies.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/clock.hpp"

namespace swarmpi::kernels::cuda {
namespace {

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return stream;
}

void record(const Event& event, cudaStream_t stream) {
  check(cudaEventRecord(event.get(), stream), "recording an event");
}

void wait_for(const Event& event, cudaStream_t stream) {
  check(cudaStreamWaitEvent(stream, event.get(), 0), "waiting for a copy of a boundary");
}

class CopiesOut final : public HostCopies {
 public:
  CopiesOut(const Device& device, std::shared_ptr<Event> last)
      : device_(device), last_(std::move(last)) {}
  // Looks now and then: the runtime cannot wait for a time.
  bool wait(double at_most_s) override {
    constexpr std::chrono::microseconds kPause(50);
    device_.select();
    const WallClock clock;
    cudaError_t status = cudaErrorNotReady;
    while ((status = cudaEventQuery(last_->get())) == cudaErrorNotReady) {
      if (clock.now_s() >= at_most_s) return false;
      std::this_thread::sleep_for(kPause);
    }
    check(status, "copying a boundary to the host");
    return true;
  }

 private:
  const Device& device_;
  std::shared_ptr<Event> last_;  // copies leave in order
};

}  // namespace

// A thread that waits for one sleeps.
Event::Event() {
  check(cudaEventCreateWithFlags(&event_, cudaEventBlockingSync | cudaEventDisableTiming),
        "making an event");
}

Event::~Event() { cudaEventDestroy(event_); }

BoundaryCopies::BoundaryCopies(Device& device)
    : device_(device), out_(make_stream()), in_(make_stream()) {
  for (auto& room : rooms_out_) room = std::make_unique<Room>(device.index());
  for (auto& room : rooms_in_) room = std::make_unique<Room>(device.index());
}

// What is under way may write to, or read, memory that goes after this.
BoundaryCopies::~BoundaryCopies() {
  cudaSetDevice(device_.index());
  cudaStreamSynchronize(out_);
  cudaStreamSynchronize(in_);
  cudaStreamDestroy(out_);
  cudaStreamDestroy(in_);
}

void BoundaryCopies::reserve(std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  for (auto& room : rooms_out_) make_large_enough(*room, size_bytes);
  for (auto& room : rooms_in_) make_large_enough(*room, size_bytes);
}

void BoundaryCopies::make_large_enough(Room& room, std::size_t size_bytes) {
  if (room.size_bytes >= size_bytes) return;
  room.memory.take(size_bytes);  // waits for all that uses it
  room.size_bytes = size_bytes;
  room.from_host = nullptr;
  room.keep.reset();
}

void BoundaryCopies::send(void* to_host, std::size_t size_bytes,
                          const std::function<void(std::byte*, cudaStream_t)>& make) {
  const cudaStream_t compute = device_.compute();
  Room& room = *rooms_out_[turn_out_++ % rooms_out_.size()];
  make_large_enough(room, size_bytes);
  auto* const bytes = static_cast<std::byte*>(room.memory.take(size_bytes));
  wait_for(room.emptied, compute);
  make(bytes, compute);
  record(room.filled, compute);
  wait_for(room.filled, out_);
  check(cudaMemcpyAsync(to_host, bytes, size_bytes, cudaMemcpyDeviceToHost, out_),
        "copying a boundary to the host");
  record(room.emptied, out_);
  last_out_ = std::make_shared<Event>();
  record(*last_out_, out_);
}

std::unique_ptr<HostCopies> BoundaryCopies::under_way() {
  if (last_out_ == nullptr) return nullptr;
  return std::make_unique<CopiesOut>(device_, std::exchange(last_out_, nullptr));
}

BoundaryCopies::Room& BoundaryCopies::next_in() {
  const auto earlier = [](const auto& a, const auto& b) {
    const bool a_idle = a->from_host == nullptr, b_idle = b->from_host == nullptr;
    return a_idle != b_idle ? a_idle : a->filled_as < b->filled_as;
  };
  return **std::min_element(rooms_in_.begin(), rooms_in_.end(), earlier);
}

void BoundaryCopies::fill(Room& room, const void* from_host, std::size_t size_bytes) {
  wait_for(room.emptied, in_);
  check(cudaMemcpyAsync(room.memory.take(size_bytes), from_host, size_bytes, cudaMemcpyHostToDevice,
                        in_),
        "copying a boundary to the device");
  record(room.filled, in_);
  room.from_host = from_host;
  room.used_bytes = size_bytes;
  room.filled_as = ++fills_;
}

void BoundaryCopies::bring(const void* from_host, std::size_t size_bytes,
                           const std::function<void(const std::byte*, cudaStream_t)>& use) {
  const cudaStream_t compute = device_.compute();
  std::shared_ptr<const std::byte> keep;  // is given back when the lock is
  const std::lock_guard lock(mutex_);
  const auto has = [&](const auto& room) {
    return room->from_host == from_host && room->used_bytes == size_bytes;
  };
  const auto found = std::find_if(rooms_in_.begin(), rooms_in_.end(), has);
  Room& room = found != rooms_in_.end() ? **found : next_in();
  if (found == rooms_in_.end()) {
    make_large_enough(room, size_bytes);
    room.keep.reset();
    fill(room, from_host, size_bytes);
  }
  check(cudaEventSynchronize(room.filled.get()), "copying a boundary to the device");
  use(static_cast<const std::byte*>(room.memory.take(size_bytes)), compute);
  record(room.emptied, compute);
  room.from_host = nullptr;
  keep = std::exchange(room.keep, nullptr);
}

void BoundaryCopies::fetch_ahead(std::shared_ptr<const std::byte> from_host,
                                 std::size_t size_bytes) {
  device_.select();
  std::shared_ptr<const std::byte> replaced;  // is given back when the lock is
  const std::lock_guard lock(mutex_);
  const auto has = [&](const auto& room) { return room->from_host == from_host.get(); };
  if (std::any_of(rooms_in_.begin(), rooms_in_.end(), has)) return;
  Room& room = next_in();
  if (room.size_bytes < size_bytes) return;
  fill(room, from_host.get(), size_bytes);
  replaced = std::exchange(room.keep, std::move(from_host));
}

}  // namespace swarmpi::kernels::cuda
