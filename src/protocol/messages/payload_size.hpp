#pragma once
// Bytes of what may not be there.

#include <cstdint>

#include "core/payload.hpp"

namespace swarmpi {

inline std::int64_t size_of(const PayloadRef& payload) {
  return payload ? static_cast<std::int64_t>(payload->size_bytes()) : 0;
}

}  // namespace swarmpi
