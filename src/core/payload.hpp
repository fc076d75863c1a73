#pragma once
// Bytes that travel between peers beside a message: activations, gradients, sums. In memory of the
// host, aligned to cache lines; whoever computes knows what they mean.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace swarmpi {

class Payload {
 public:
  /// Of undefined content.
  explicit Payload(std::size_t size_bytes);
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;
  ~Payload();

  std::size_t size_bytes() const { return size_bytes_; }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  friend class PayloadPool;

  std::size_t size_bytes_;
  std::size_t capacity_bytes_;  // at least the size
  std::byte* data_;
};

/// A payload that was handed on: nobody writes into it any more.
using PayloadRef = std::shared_ptr<const Payload>;

/// Payloads that go round: one that nobody holds any more is taken again, from whichever thread it
/// was dropped. Those of about the same size share their memory: packed sums are a little longer or
/// shorter each time. What nobody has wanted for long is given back when there is a new need.
class PayloadPool {
 public:
  PayloadPool();
  /// Of undefined content. It may outlive the pool.
  std::shared_ptr<Payload> take(std::size_t size_bytes);
  /// Memory that is kept for whoever takes next.
  std::size_t idle_bytes() const;

 private:
  struct Idle;
  std::shared_ptr<Idle> idle_;
};

}  // namespace swarmpi
