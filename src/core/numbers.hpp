#pragma once
// Conversions between number types.

#include <cstdint>

namespace swarmpi {

/// The nearest double; exact up to 2^53.
inline double as_double(std::int64_t value) { return static_cast<double>(value); }

}  // namespace swarmpi
