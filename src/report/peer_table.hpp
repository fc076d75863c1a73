#pragma once
// Who did what in a run, in a few aligned lines.

#include <string>
#include <vector>

#include "core/records.hpp"

namespace swarmpi {

/// A line of headings and one a peer; one a stage where the peers are many. Empty where a single
/// peer did everything.
std::vector<std::string> peer_table(const std::vector<PeerRow>& rows);

}  // namespace swarmpi
