#pragma once
// `swarmpi sample`: text from a checkpoint.

#include <cstdint>
#include <ostream>
#include <string>

#include "core/status.hpp"

namespace swarmpi {

struct SampleOptions {
  std::string checkpoint;  ///< step-N folder, or a folder of them
  std::string prompt;      ///< text; for models of tokens their numbers, separated by blanks
  std::int64_t tokens = 400;
  double temperature = 0.8;  ///< 0: always the likeliest token
  std::uint64_t seed = 1;
};

/// Prints the prompt and what the model makes of it, token by token; stops when `out` fails.
Status run_sample(const SampleOptions& options, std::ostream& out);

}  // namespace swarmpi
