#pragma once
// `swarmpi prepare`: text files or folders to byte tokens.

#include <ostream>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

struct PrepareOptions {
  std::string out;
  std::vector<std::string> sources;
};

/// Says in one line what was written.
Status run_prepare(const PrepareOptions& options, std::ostream& out);

}  // namespace swarmpi
