#pragma once
// What `swarmpi check` says of the machines that a deck describes: what work takes on each class of
// device and link, and who holds the others up.

#include <string>
#include <vector>

#include "config/config.hpp"
#include "model/tensors.hpp"
#include "protocol/membership/view.hpp"

namespace swarmpi {

/// Lines without `#`; none where no peer of the deck has a device or a link. `specs`: of all
/// stages; `view`: who serves which at the start, among `workers` peers, one of whom dies each
/// `between_deaths_s`; 0: none. All is by formula, as emulation and simulation reckon, without what
/// waits for what.
std::vector<std::string> machines_report(const Config& config, const std::vector<StageSpec>& specs,
                                         const View& view, std::int64_t workers,
                                         double between_deaths_s);

}  // namespace swarmpi
