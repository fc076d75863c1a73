#pragma once
// `swarmpi prepare`: text files and folders to one file of byte tokens.

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

struct PreparedText {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::int64_t duplicates = 0;  ///< files left out because their content was there already
  std::int64_t not_text =
      0;  ///< files left out because they hold bytes that are not text (NUL, bad UTF-8)
};

/// Writes OUT atomically: all text files under `sources` (folders recursively, following no links),
/// sorted by path, each content once, separated by a newline. The result depends on the files'
/// names and contents alone.
Result<PreparedText> prepare_text(const std::string& out, const std::vector<std::string>& sources);

}  // namespace swarmpi
