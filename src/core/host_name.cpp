#include "core/host_name.hpp"

#include <unistd.h>

namespace swarmpi {

std::string host_name() {
  char name[256] = "unknown";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace swarmpi
