#pragma once
// The header of NumPy's files of one array (.npy).

#include <cstddef>
#include <string_view>

#include "config/config.hpp"
#include "core/status.hpp"

namespace swarmpi {

bool has_numpy_header(std::string_view file);

/// Bytes before the tokens of a file that has such a header. Errors: bad_input with the reason
/// alone: the array has not one dimension, is of another type than `format` (little-endian <u2, or
/// <u4 or <i4), or is not as long as the file.
Result<std::size_t> numpy_header_bytes(std::string_view file, DataFormat format);

}  // namespace swarmpi
