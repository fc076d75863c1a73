#include "simulator/traffic_count.hpp"

#include <algorithm>
#include <type_traits>

#include "swarm/payload_size.hpp"
#include "transport/frame.hpp"

namespace swarmpi {
namespace {

template <class Body, class... Bodies>
constexpr bool kIsOneOf = (std::is_same_v<Body, Bodies> || ...);

template <class Body>
constexpr Errand errand_of_body() {
  if constexpr (kIsOneOf<Body, ForwardMessage, BackwardMessage>) return Errand::boundary;
  if constexpr (kIsOneOf<Body, IssueMessage, ForwardDone>) return Errand::wiring;
  if constexpr (kIsOneOf<Body, ReportMessage>) return Errand::report;
  if constexpr (kIsOneOf<Body, ShareMessage, ChunkMessage>) return Errand::reduction;
  if constexpr (kIsOneOf<Body, HeartbeatMessage, PingMessage, PongMessage>)
    return Errand::heartbeat;
  if constexpr (kIsOneOf<Body, SealMessage, ReopenMessage, SealRefused, ReducedMessage,
                         CommitMessage>) {
    return Errand::commit;
  }
  return Errand::other;
}

// Only cuts depend on it, sizes do not.
constexpr std::size_t kAnyFragmentBytes = 1 << 16;

}  // namespace

Errand errand_of(const Message& message) {
  return std::visit([](const auto& body) { return errand_of_body<std::decay_t<decltype(body)>>(); },
                    message.body);
}

bool TrafficCount::same_but_for_the_rest(const TrafficCount& other) const {
  for (std::size_t errand = 0; errand < kErrands; ++errand) {
    const Errand of = static_cast<Errand>(errand);
    if (of == Errand::other || of == Errand::heartbeat) continue;
    if (between_[errand] != other.between_[errand]) return false;
    if (within_[errand] != other.within_[errand]) return false;
  }
  return true;
}

void TrafficCount::asked(double, PeerId peer, const Action& action) {
  const auto* send = std::get_if<Send>(&action);
  if (send == nullptr) return;
  const Message& message = send->message;
  const Packed packed = pack(message);
  Traffic& traffic =
      (send->to == peer ? within_ : between_)[static_cast<std::size_t>(errand_of(message))];
  ++traffic.messages;
  traffic.bytes += static_cast<std::int64_t>(Frame(packed, kAnyFragmentBytes).total_bytes());
  traffic.payload_bytes += size_of(packed.payload);
  if (const auto* forward = std::get_if<ForwardMessage>(&message.body)) {
    keeps(peer, {forward->work, Direction::forward}, forward->activations);
  } else if (const auto* backward = std::get_if<BackwardMessage>(&message.body)) {
    keeps(peer, {backward->work, Direction::backward}, backward->gradient);
  }
}

void TrafficCount::happened(double, PeerId peer, const Event& event) {
  const auto* arrived = std::get_if<MessageArrived>(&event);
  const auto* commit =
      arrived == nullptr ? nullptr : std::get_if<CommitMessage>(&arrived->message.body);
  if (commit != nullptr) forgets(peer, commit->record->step);
}

// The rule of Server::keep().
void TrafficCount::keeps(PeerId peer, const Sent& sent, const PayloadRef& payload) {
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

void TrafficCount::forgets(PeerId peer, Step committed) {
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
