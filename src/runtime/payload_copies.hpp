#pragma once
// Copies of payloads between the host and the device that computes, beside the jobs: what a job has
// made comes to the host while the next one runs, which finds what it reads on the device.

#include <memory>

#include "core/payload.hpp"
#include "kernels/backend.hpp"
#include "runtime/inbox.hpp"
#include "runtime/task_thread.hpp"

namespace swarmpi {

class PayloadCopies {
 public:
  /// `patience_s`: if a copy takes longer, the device hangs, and this process ends, saying so.
  /// REQUIRES: both outlive this.
  PayloadCopies(kernels::Backend& backend, Inbox& inbox, double patience_s);
  /// Waits for all copies: memory goes that they write to.
  ~PayloadCopies() { thread_.drain(); }
  PayloadCopies(const PayloadCopies&) = delete;
  PayloadCopies& operator=(const PayloadCopies&) = delete;

  /// The content of `payload`, which is handed on now, is there when `copies` are; it is kept until
  /// then, and the protocol thread is woken.
  void land(std::shared_ptr<Payload> payload, std::unique_ptr<kernels::HostCopies> copies);
  /// The next job will read it, as far as one can tell. On one thread; does not block, and may be
  /// said any number of times.
  void fetch_ahead(const PayloadRef& payload);
  /// Whether nothing is under way.
  bool idle() { return thread_.idle(); }

 private:
  kernels::Backend& backend_;
  Inbox& inbox_;
  double patience_s_;
  std::weak_ptr<const Payload> fetched_last_;
  TaskThread thread_;  // last: its tasks use all of the above
};

}  // namespace swarmpi
