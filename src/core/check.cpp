#include "core/check.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>

namespace swarmpi {

void check_failed(const char* expression, const char* file, int line, const std::string& why) {
  const std::string text = fmt::format("swarmpi: internal error at {}:{}: {} does not hold: {}\n",
                                       file, line, expression, why);
  std::fputs(text.c_str(), stderr);
  std::abort();
}

}  // namespace swarmpi
