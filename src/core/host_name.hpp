#pragma once

#include <string>

namespace swarmpi {

/// What this machine calls itself; "unknown" where it does not say.
std::string host_name();

}  // namespace swarmpi
