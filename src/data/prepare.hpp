#pragma once
// `swarmpi prepare`: joins text files and folders into one file of byte tokens.

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

struct PreparedText {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::int64_t duplicates = 0;  ///< files left out because their content was there already
  /// Files left out because they cannot be read or are not text (NUL, invalid UTF-8), and folders
  /// that cannot be read.
  std::int64_t not_text = 0;
};

/// Writes `out` atomically: all text files under `sources` (folders recursively, following no
/// links), sorted by path, each content once, separated by a newline. The result depends on the
/// files' names and contents alone. Errors: bad_input.
Result<PreparedText> prepare_text(const std::string& out, const std::vector<std::string>& sources);

}  // namespace swarmpi
