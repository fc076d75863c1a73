#pragma once
// Bytes that travel between peers beside a message: activations, gradients, sums. They lie in host
// memory, aligned to cache lines; only the code that computes with them knows their layout.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace swarmpi {

class Payload {
 public:
  /// Memory of so many bytes, of any content, aligned to cache lines.
  using Allocate = std::function<std::shared_ptr<std::byte>(std::size_t size_bytes)>;

  /// Of undefined content. `allocate`: null takes memory as `new` does.
  explicit Payload(std::size_t size_bytes, const Allocate& allocate = nullptr);
  /// A size and no memory, for those who compute nothing. It has no data().
  static std::shared_ptr<const Payload> hollow(std::size_t size_bytes);
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;

  std::size_t size_bytes() const { return size_bytes_; }
  /// Whether the content is there, for any thread: what a device has made may be handed on while it
  /// is still on its way to the host.
  bool there() const { return there_.load(std::memory_order_acquire); }
  /// Sleeps until it is.
  void wait() const { there_.wait(false, std::memory_order_acquire); }
  /// The content comes later, and will be told. REQUIRES: it was not handed on yet.
  void comes_later() { there_.store(false, std::memory_order_relaxed); }
  /// It has come.
  void has_come() {
    there_.store(true, std::memory_order_release);
    there_.notify_all();
  }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }

 private:
  friend class PayloadPool;

  struct Hollow {};
  Payload(Hollow, std::size_t size_bytes) : size_bytes_(size_bytes), capacity_bytes_(0) {}

  std::size_t size_bytes_;
  std::size_t capacity_bytes_;  // at least the size
  std::shared_ptr<std::byte> data_;
  std::atomic<bool> there_{true};
};

/// A payload that was handed on; nothing writes into it any more, but what was on its way.
using PayloadRef = std::shared_ptr<const Payload>;

/// Reuses the memory of payloads: when the last reference to one is dropped, by any thread, its
/// memory serves a later payload of about the same size (packed sums are a little longer or shorter
/// each time). take() frees memory that no payload has needed for long before it allocates more.
class PayloadPool {
 public:
  /// `allocate`: for memory that some device copies fast; any thread calls it.
  explicit PayloadPool(Payload::Allocate allocate = nullptr);
  /// Of undefined content. It may outlive the pool.
  std::shared_ptr<Payload> take(std::size_t size_bytes);
  /// Memory that is kept for later payloads.
  std::size_t idle_bytes() const;

 private:
  struct Idle;
  Payload::Allocate allocate_;
  std::shared_ptr<Idle> idle_;
};

}  // namespace swarmpi
