#pragma once
// A command in one text, as people would type it.

#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

/// Its words, as a shell splits them: quotes ('...' and "...") and backslashes keep blanks and each
/// other. Nothing is expanded: `$`, `*`, `~` and `;` stand for themselves. Errors: bad_input, where
/// a quote is not closed.
Result<std::vector<std::string>> shell_words(const std::string& text);

}  // namespace swarmpi
