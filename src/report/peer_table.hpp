#pragma once
// Each peer's work and time in a run, as aligned lines.

#include <string>
#include <vector>

#include "core/records.hpp"

namespace swarmpi {

/// A line of headings and one for each peer; one for each stage where there are many peers. Empty
/// where a single peer served all.
std::vector<std::string> peer_table(const std::vector<PeerRow>& rows);

}  // namespace swarmpi
