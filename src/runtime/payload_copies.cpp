#include "runtime/payload_copies.hpp"

#include <utility>

namespace swarmpi {

PayloadCopies::PayloadCopies(kernels::Backend& backend, Inbox& inbox)
    : backend_(backend), inbox_(inbox) {}

void PayloadCopies::land(std::shared_ptr<Payload> payload,
                         std::unique_ptr<kernels::HostCopies> copies) {
  payload->comes_later();
  const std::shared_ptr<kernels::HostCopies> shared = std::move(copies);
  thread_.run([this, payload = std::move(payload), shared] {
    shared->wait();
    payload->has_come();
    inbox_.wake();
  });
}

void PayloadCopies::fetch_ahead(const PayloadRef& payload) {
  if (fetched_last_.lock() == payload) return;
  fetched_last_ = payload;
  thread_.run([this, payload] {
    payload->wait();
    backend_.fetch_ahead({payload, payload->data()}, payload->size_bytes());
  });
}

}  // namespace swarmpi
