#pragma once
// Assertions that stay on in production: a broken invariant ends the process with what was
// expected.

#include <string>

namespace swarmpi {

/// Prints the failed expression, its file and line, and `why`, then aborts.
[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const std::string& why);

}  // namespace swarmpi

#define SWARMPI_CHECK(expression, why)                                                \
  do {                                                                                \
    if (!(expression)) ::swarmpi::check_failed(#expression, __FILE__, __LINE__, why); \
  } while (false)
