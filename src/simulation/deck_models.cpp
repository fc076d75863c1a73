#include "simulation/deck_models.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <variant>

#include "core/check.hpp"
#include "hardware/device.hpp"
#include "protocol/messages/lanes.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/pass_jobs.hpp"

namespace swarmpi {
namespace {

// From a death until others hear of it: about what ULFM takes to report one.
constexpr double kDetectionS = 5e-3;
// One way between two peers that the deck gives no link.
constexpr double kIdealLatencyS = 100e-6;
// A row that is synced to a file system that is shared.
constexpr double kSyncS = 2e-3;

// What the costs of jobs depend on, but for the stage.
enum Kind : std::size_t { kForward, kBackward, kBackwardWithForward, kBackwardAgain, kKinds };

std::optional<Kind> kind_of(const Job& job, bool recomputes) {
  if (holds_alternative<ForwardJob>(job)) return kForward;
  const auto* backward = get_if<BackwardJob>(&job);
  if (backward == nullptr) return std::nullopt;
  if (!backward->add) return kBackwardAgain;
  return recomputes ? kBackwardWithForward : kBackward;
}

Shipment shipment(PeerId from, PeerId to, const Message& message) {
  return {from, to, wire_bytes(message), overtakes(message)};
}

}  // namespace

DeviceCosts::Device& DeviceCosts::device_of_peer(PeerId peer) {
  const auto index = static_cast<std::size_t>(peer.value);
  if (index >= of_peer_.size()) of_peer_.resize(index + 1, -1);
  if (of_peer_[index] < 0) {
    const std::optional<DeviceConfig> device = device_of(config_, peer);
    SWARMPI_CHECK(device.has_value(), "each simulated peer has a device");
    std::size_t known = 0;
    while (known < devices_.size() && devices_[known].config.name != device->name) ++known;
    if (known == devices_.size()) {
      devices_.push_back({*device, std::vector<double>(kKinds * stages_, -1)});
    }
    of_peer_[index] = static_cast<std::int32_t>(known);
  }
  return devices_[static_cast<std::size_t>(of_peer_[index])];
}

double DeviceCosts::seconds(PeerId peer, const Job& job) {
  const bool recomputes =
      config_.compute.recompute == Recompute::always || config_.swarm.method == Method::gpipe;
  const std::optional<Kind> kind = kind_of(job, recomputes);
  Device& device = device_of_peer(peer);
  if (!kind) return costs_.seconds(device.config, job, BackwardResult());
  double& known = device.seconds[*kind * stages_ + static_cast<std::size_t>(stage_of(job).value)];
  if (known < 0) {
    BackwardResult result;
    result.with_forward = *kind == kBackwardWithForward;
    known = costs_.seconds(device.config, job, result);
  }
  return known;
}

NetworkLinks::NetworkLinks(const Config& config) : network_(config, kAhead) {}

Delivery NetworkLinks::deliver(PeerId from, PeerId to, const Message& message, double now_s) {
  if (from == to) return {0, 1};
  const Shipment sent = shipment(from, to, message);
  sent_bytes_ += sent.bytes;
  if (is_ideal(from, to)) return {kIdealLatencyS, 1};
  const Nanoseconds now = to_ns(now_s);
  const Passage passage = network_.leave(sent, now);
  const Nanoseconds waits = passage.last - network_.spread(sent) - passage.first;
  return {to_s(passage.first - now), 1, to_s(std::max(waits, Nanoseconds{0}))};
}

double NetworkLinks::takes_s(PeerId from, PeerId to, const Message& message,
                             const Delivery& delivery, double now_s) {
  if (from == to || is_ideal(from, to)) return delivery.delay_s;
  const Shipment sent = shipment(from, to, message);
  const Nanoseconds now = to_ns(now_s), first = now + to_ns(delivery.delay_s);
  return to_s(network_.arrive(sent, {first, first + network_.spread(sent)}) - now);
}

DeathPropagation NetworkLinks::death_propagation(PeerId, PeerId) {
  return {std::numeric_limits<double>::infinity(), kDetectionS};
}

WriteAnswer PlainDisk::write(PeerId, const Action&) { return {kSyncS, {}, false}; }

}  // namespace swarmpi
