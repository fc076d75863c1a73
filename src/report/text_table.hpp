#pragma once
// Aligned columns of text, for a terminal that may be narrower than all of them.

#include <cstddef>
#include <string>
#include <vector>

namespace swarmpi {

/// The rows, the first of which has the headings, all of one length: the first column to the left,
/// the others to the right. Columns that do not fit beside it stand below, with the first one
/// again.
std::string text_table(const std::vector<std::vector<std::string>>& rows, std::size_t columns);

}  // namespace swarmpi
