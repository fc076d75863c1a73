#include "simulation/traffic_count.hpp"

#include <algorithm>

#include "protocol/messages/commit.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/microbatches.hpp"
#include "transport/wire/frame.hpp"

namespace swarmpi {
namespace {

// The number of fragments depends on it, the total size does not.
constexpr std::size_t kAnyFragmentBytes = 1 << 16;

}  // namespace

bool TrafficCount::same_except_upkeep(const TrafficCount& other) const {
  for (std::size_t message_class = 0; message_class < kMessageClasses; ++message_class) {
    const MessageClass of = static_cast<MessageClass>(message_class);
    if (of == MessageClass::other || of == MessageClass::heartbeat) continue;
    if (between_[message_class] != other.between_[message_class]) return false;
    if (within_[message_class] != other.within_[message_class]) return false;
  }
  return true;
}

void TrafficCount::asked(double, PeerId peer, const Action& action) {
  const auto* send = get_if<Send>(&action);
  if (send == nullptr) return;
  const Message& message = send->message;
  const Packed packed = pack(message);
  const MessageClass message_class = traits_of(message.body).message_class;
  Traffic& traffic =
      (send->to == peer ? within_ : between_)[static_cast<std::size_t>(message_class)];
  ++traffic.messages;
  traffic.bytes += static_cast<std::int64_t>(Frame(packed, kAnyFragmentBytes).total_bytes());
  traffic.payload_bytes += size_of(packed.payload);
  if (const auto* forward = get_if<ForwardMessage>(&message.body)) {
    keep(peer, {forward->work, Direction::forward}, forward->activations);
  } else if (const auto* backward = get_if<BackwardMessage>(&message.body)) {
    keep(peer, {backward->work, Direction::backward}, backward->gradient);
  }
}

void TrafficCount::happened(double, PeerId peer, const Event& event) {
  const auto* arrived = get_if<MessageArrived>(&event);
  const auto* commit = arrived == nullptr ? nullptr : get_if<CommitMessage>(&arrived->message.body);
  if (commit != nullptr) forget(peer, commit->record->step);
}

// The same rule as in ReplicaHost::keep().
void TrafficCount::keep(PeerId peer, const Sent& sent, const PayloadRef& payload) {
  std::int64_t& kept_bytes = kept_bytes_[peer];
  const std::int64_t bytes = size_of(payload);
  if (kept_bytes + bytes > plan_.kept_bytes) return;
  if (!kept_[peer].emplace(sent, bytes).second) return;
  kept_bytes += bytes;
  std::int64_t& most = most_kept_bytes_[peer];
  most = std::max(most, kept_bytes);
  kept_together_bytes_ += bytes;
  most_kept_together_bytes_ = std::max(most_kept_together_bytes_, kept_together_bytes_);
}

void TrafficCount::forget(PeerId peer, Step committed) {
  auto& kept = kept_[peer];
  const auto end = std::find_if(kept.begin(), kept.end(), [&](const auto& entry) {
    return entry.first.first.microbatch.step > committed;
  });
  for (auto it = kept.begin(); it != end; ++it) {
    kept_bytes_[peer] -= it->second;
    kept_together_bytes_ -= it->second;
  }
  kept.erase(kept.begin(), end);
}

}  // namespace swarmpi
