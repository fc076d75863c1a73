#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace swarmpi {

/// "0-2,5": three and more neighbours together.
std::string number_list(const std::set<std::int64_t>& numbers);

}  // namespace swarmpi
