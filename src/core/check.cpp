#include "core/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace swarmpi {

void check_failed(const char* expression, const char* file, int line, const std::string& why) {
  std::fprintf(stderr, "swarmpi: internal error at %s:%d: %s does not hold: %s\n", file, line,
               expression, why.c_str());
  std::abort();
}

}  // namespace swarmpi
