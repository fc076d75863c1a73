#pragma once
// What recovery costs where nobody dies.

#include <cstdint>
#include <string>

namespace swarmpi {

/// Prints what the deck's run sends and keeps, with recovery and without. Returns the exit status.
int count_traffic(const std::string& deck, std::int64_t peers, std::int64_t steps);

}  // namespace swarmpi
