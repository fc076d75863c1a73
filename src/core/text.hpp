#pragma once
// Small helpers for messages that people read.

#include <cstdarg>
#include <string>

namespace swarmpi {

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

}  // namespace swarmpi
