#pragma once
// Counts the messages of a run and their bytes on the wire, and how much of what they sent the
// peers keep for repairs.

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "protocol/messages/message.hpp"
#include "protocol/messages/message_traits.hpp"
#include "protocol/observer.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

struct Traffic {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;  ///< frame prefix, header and payload
  std::int64_t payload_bytes = 0;

  bool operator==(const Traffic&) const = default;
};

class TrafficCount final : public Observer {
 public:
  /// The plan outlives it.
  explicit TrafficCount(const RunPlan& plan) : plan_(plan) {}

  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;

  /// From one peer to another.
  const Traffic& between(MessageClass message_class) const {
    return between_[static_cast<std::size_t>(message_class)];
  }
  /// From a peer to itself: these messages leave no process.
  const Traffic& within(MessageClass message_class) const {
    return within_[static_cast<std::size_t>(message_class)];
  }
  /// Whether all classes but `other` and `heartbeat` are equal: a run that can recover sends more
  /// of those two.
  bool same_except_upkeep(const TrafficCount& other) const;
  /// Largest size of the sent payloads that each peer has kept for repairs at a time.
  const std::map<PeerId, std::int64_t>& most_kept_bytes() const { return most_kept_bytes_; }
  std::int64_t most_kept_together_bytes() const { return most_kept_together_bytes_; }

 private:
  // What was sent: into this stage, or back to it.
  enum class Direction : std::uint8_t { forward, backward };
  using Sent = std::pair<WorkId, Direction>;

  void keep(PeerId peer, const Sent& sent, const PayloadRef& payload);
  void forget(PeerId peer, Step committed);

  const RunPlan& plan_;
  std::array<Traffic, kMessageClasses> between_, within_;
  std::map<PeerId, std::map<Sent, std::int64_t>> kept_;
  std::map<PeerId, std::int64_t> kept_bytes_, most_kept_bytes_;
  std::int64_t kept_together_bytes_ = 0, most_kept_together_bytes_ = 0;
};

}  // namespace swarmpi
