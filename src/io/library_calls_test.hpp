#pragma once
// Calls of the C library that tests of this folder look at: this program has its own.

#include <functional>

namespace swarmpi {

/// Called before each unlink, link, rename and fsync of this process. For tests with one thread.
extern std::function<void(const char* call)> before_file_call;

}  // namespace swarmpi
