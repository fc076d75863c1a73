#include "runtime/inbox.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "core/check.hpp"

namespace swarmpi {

Inbox::Inbox() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  SWARMPI_CHECK(descriptor_ >= 0, "the system gives no event descriptor");
}

Inbox::~Inbox() { close(descriptor_); }

void Inbox::post(Event event) {
  const std::lock_guard lock(mutex_);
  events_.push_back({std::move(event), clock_.now_s()});
  signal();
}

void Inbox::wake() {
  const std::lock_guard lock(mutex_);
  signal();
}

void Inbox::signal() {
  if (!std::exchange(signalled_, true)) eventfd_write(descriptor_, 1);
}

double Inbox::oldest_waits_s() {
  const std::lock_guard lock(mutex_);
  return events_.empty() ? 0 : clock_.now_s() - events_.front().at_s;
}

std::optional<Event> Inbox::take() {
  const std::lock_guard lock(mutex_);
  std::optional<Event> event;
  if (!events_.empty()) {
    event = std::move(events_.front().event);
    events_.pop_front();
  }
  if (events_.empty() && std::exchange(signalled_, false)) {
    eventfd_t count = 0;
    eventfd_read(descriptor_, &count);
  }
  return event;
}

}  // namespace swarmpi
