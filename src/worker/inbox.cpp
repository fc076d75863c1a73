#include "worker/inbox.hpp"

#include <chrono>
#include <utility>

namespace swarmpi {

void Inbox::post(Event event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  arrived_.notify_one();
}

std::optional<Event> Inbox::take(double timeout_s) {
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                    [&] { return !events_.empty(); });
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

}  // namespace swarmpi
