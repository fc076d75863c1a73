#pragma once
// What a deck asks of the number of ranks that it is run on.

#include <cstdint>

#include "config/config.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// Whether `ranks` ranks can run the deck: there is a worker, each pin has one, no stage is left
/// without a peer, each fault has its peer. Errors: bad_input, beginning with the key.
Status check_ranks(const Config& config, std::int64_t ranks);

}  // namespace swarmpi
