#pragma once
// What a peer may take of memory, by the machine and by the deck's device.

#include <cstdint>
#include <optional>

#include "config/config.hpp"
#include "core/ids.hpp"
#include "kernels/backend.hpp"
#include "model/cost.hpp"

namespace swarmpi {

/// budget_bytes() of model/cost.hpp; where the peer is emulated no more than its device has. A peer
/// that computes nothing takes nothing of the machine: only the deck bounds it.
std::optional<std::int64_t> peer_budget_bytes(const Config& config, PeerId peer,
                                              const kernels::Backend& backend,
                                              const Sharers& sharers);

}  // namespace swarmpi
