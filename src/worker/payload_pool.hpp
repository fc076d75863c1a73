#pragma once
// Buffers for what crosses stage boundaries. They are taken once and go round: a payload that
// nobody holds any more returns to the pool, from whichever thread dropped it.

#include <cstdint>
#include <memory>

#include "kernels/backend.hpp"
#include "swarm/messages.hpp"

namespace swarmpi {

/// A (B*T, C) matrix as payload.
class TensorPayload final : public Payload {
 public:
  TensorPayload(kernels::Backend& backend, std::int64_t rows, std::int64_t columns);
  std::size_t size_bytes() const override { return memory_->size_bytes(); }
  kernels::Matrix matrix() const { return matrix_; }

 private:
  std::unique_ptr<kernels::Memory> memory_;
  kernels::Matrix matrix_;  // (B*T, C), dense
};

class PayloadPool {
 public:
  PayloadPool(kernels::Backend& backend, std::int64_t rows, std::int64_t columns);
  /// A payload of undefined content; goes back to the pool with its last reference, which may
  /// outlive the pool.
  std::shared_ptr<TensorPayload> take();

 private:
  struct Free;
  kernels::Backend& backend_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::shared_ptr<Free> free_;
};

/// The matrix behind a payload of this process; empty for null.
kernels::Matrix matrix_of(const PayloadRef& payload);

}  // namespace swarmpi
