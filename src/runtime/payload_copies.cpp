#include "runtime/payload_copies.hpp"

#include <fmt/core.h>

#include <utility>

#include "core/check.hpp"

namespace swarmpi {

PayloadCopies::PayloadCopies(kernels::Backend& backend, Inbox& inbox, double patience_s)
    : backend_(backend), inbox_(inbox), patience_s_(patience_s) {}

void PayloadCopies::land(std::shared_ptr<Payload> payload,
                         std::unique_ptr<kernels::HostCopies> copies) {
  payload->comes_later();
  const std::shared_ptr<kernels::HostCopies> shared = std::move(copies);
  thread_.run([this, payload = std::move(payload), shared] {
    SWARMPI_CHECK(shared->wait(patience_s_),
                  fmt::format("the copy of a result from the device has not come to its end after "
                              "{:.0f} s ([compute] job_timeout_s)",
                              patience_s_));
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
