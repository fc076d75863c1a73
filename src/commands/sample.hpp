#pragma once
// `swarmpi sample`: text from a checkpoint.

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "core/status.hpp"

namespace swarmpi {

struct SampleOptions {
  std::string checkpoint;  ///< step-N folder, or a folder of them
  std::string prompt;      ///< text; for models of tokens their numbers, separated by blanks
  std::int64_t tokens = 400;
  double temperature = 0.8;  ///< 0: always the likeliest token
  std::uint64_t seed = 1;
};

/// The prompt as the model of this deck reads it. bad_input: not numbers, or not below its
/// vocabulary.
Result<std::vector<std::int32_t>> prompt_tokens(const std::string& prompt, const Config& config);

/// Prints the prompt and what the model makes of it, token by token; stops when `out` fails.
Status run_sample(const SampleOptions& options, std::ostream& out);

}  // namespace swarmpi
