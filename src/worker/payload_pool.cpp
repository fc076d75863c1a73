#include "worker/payload_pool.hpp"

#include <mutex>
#include <vector>

#include "core/check.hpp"

namespace swarmpi {

TensorPayload::TensorPayload(kernels::Backend& backend, std::int64_t rows, std::int64_t columns)
    : memory_(backend.allocate(static_cast<std::size_t>(rows * columns) * sizeof(float))),
      matrix_(memory_->as<float>(), rows, columns) {}

struct PayloadPool::Free {
  std::mutex mutex;
  std::vector<std::unique_ptr<TensorPayload>> payloads;  // guarded by mutex
};

PayloadPool::PayloadPool(kernels::Backend& backend, std::int64_t rows, std::int64_t columns)
    : backend_(backend), rows_(rows), columns_(columns), free_(std::make_shared<Free>()) {}

std::shared_ptr<TensorPayload> PayloadPool::take() {
  std::unique_ptr<TensorPayload> payload;
  {
    const std::lock_guard lock(free_->mutex);
    if (!free_->payloads.empty()) {
      payload = std::move(free_->payloads.back());
      free_->payloads.pop_back();
    }
  }
  if (!payload) payload = std::make_unique<TensorPayload>(backend_, rows_, columns_);
  return {payload.release(), [free = free_](TensorPayload* returned) {
            const std::lock_guard lock(free->mutex);
            free->payloads.emplace_back(returned);
          }};
}

kernels::Matrix matrix_of(const PayloadRef& payload) {
  if (!payload) return {};
  const auto* tensor = dynamic_cast<const TensorPayload*>(payload.get());
  SWARMPI_CHECK(tensor != nullptr, "payloads of this process are tensors");
  return tensor->matrix();
}

}  // namespace swarmpi
