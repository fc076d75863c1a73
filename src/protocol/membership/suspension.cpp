#include "protocol/membership/suspension.hpp"

#include <utility>

namespace swarmpi {

bool Suspension::is_due(double now_s, std::optional<double> timer_s) const {
  const bool was_stopped = timer_s && now_s > *timer_s + patience_s_;
  return was_stopped && (!suspended_ || is_hopeless(now_s));
}

void Suspension::begin(double now_s) {
  if (!suspended_) suspended_.emplace();
  suspended_->since_s = now_s;
}

bool Suspension::holds(const Event& event) const {
  if (!suspended_) return false;
  if (const auto* arrived = std::get_if<MessageArrived>(&event)) {
    return kMessageTable.of(arrived->message.body).hearing != Hearing::even_suspended;
  }
  return !std::holds_alternative<PeerLost>(event) && !std::holds_alternative<TimerDue>(event);
}

std::vector<Event> Suspension::answered(const PongMessage& pong) {
  if (!suspended_ || pong.sent_s < suspended_->since_s) return {};
  return std::move(*std::exchange(suspended_, std::nullopt)).held;
}

}  // namespace swarmpi
