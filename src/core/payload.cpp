#include "core/payload.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <utility>

namespace swarmpi {
namespace {

constexpr std::align_val_t kAlignment{64};

// Sizes within an eighth of each other have the same.
std::size_t capacity_for(std::size_t size_bytes) {
  const std::size_t step = std::max<std::size_t>(64, std::bit_floor(size_bytes) / 8);
  return (size_bytes + step - 1) / step * step;
}

std::shared_ptr<std::byte> allocate_by_new(std::size_t size_bytes) {
  return {static_cast<std::byte*>(::operator new(size_bytes, kAlignment)),
          [](std::byte* memory) { ::operator delete(memory, kAlignment); }};
}

}  // namespace

Payload::Payload(std::size_t size_bytes, const Allocate& allocate)
    : size_bytes_(size_bytes),
      capacity_bytes_(capacity_for(size_bytes)),
      data_(allocate ? allocate(capacity_bytes_) : allocate_by_new(capacity_bytes_)) {}

std::shared_ptr<const Payload> Payload::hollow(std::size_t size_bytes) {
  return std::shared_ptr<const Payload>(new Payload(Hollow(), size_bytes));
}

struct PayloadPool::Idle {
  // An idle payload is freed after so many others were taken: those of some steps.
  static constexpr std::uint64_t kPatience = 4096;

  struct Entry {
    std::unique_ptr<Payload> payload;
    std::uint64_t since = 0;  // value of `takes`
  };

  std::unique_ptr<Payload> take(std::size_t capacity_bytes) {
    const std::lock_guard lock(mutex);
    ++takes;
    const auto [first, end] = by_capacity.equal_range(capacity_bytes);
    if (first != end) return std::move(by_capacity.extract(std::prev(end)).mapped().payload);
    std::erase_if(by_capacity,
                  [this](const auto& entry) { return entry.second.since + kPatience < takes; });
    return nullptr;
  }
  void give_back(Payload* payload, std::size_t capacity_bytes) {
    const std::lock_guard lock(mutex);
    by_capacity.emplace(capacity_bytes, Entry{std::unique_ptr<Payload>(payload), takes});
  }

  std::mutex mutex;
  std::uint64_t takes = 0;                        // guarded by mutex
  std::multimap<std::size_t, Entry> by_capacity;  // guarded by mutex
};

PayloadPool::PayloadPool(Payload::Allocate allocate)
    : allocate_(std::move(allocate)), idle_(std::make_shared<Idle>()) {}

std::shared_ptr<Payload> PayloadPool::take(std::size_t size_bytes) {
  std::unique_ptr<Payload> payload = idle_->take(capacity_for(size_bytes));
  if (!payload) payload = std::make_unique<Payload>(size_bytes, allocate_);
  payload->size_bytes_ = size_bytes;
  payload->there_.store(true, std::memory_order_relaxed);
  return {payload.release(), [idle = idle_](Payload* returned) {
            idle->give_back(returned, returned->capacity_bytes_);
          }};
}

std::size_t PayloadPool::idle_bytes() const {
  const std::lock_guard lock(idle_->mutex);
  std::size_t sum = 0;
  for (const auto& [capacity_bytes, entry] : idle_->by_capacity) sum += capacity_bytes;
  return sum;
}

}  // namespace swarmpi
