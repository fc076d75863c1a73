#pragma once
// What a file of tokens says, and what it looks like: how many bytes a token has, headers of llm.c
// and NumPy, and which `data.format` a file is probably of.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// Bytes of a token as it is stored.
std::int64_t token_bytes(DataFormat format);

/// Bytes of llm.c's or NumPy's header, 0 if a file has none. Errors: bad_input with the reason
/// alone: the file does not hold whole tokens of this format, its header contradicts format or
/// content, or it is a foreign_file(). Never an error with DataFormat::bytes.
Result<std::size_t> header_bytes(std::string_view file, DataFormat format);

/// The format that a file is probably of, by its first bytes; nothing where they do not tell. A
/// guess for warnings, and only for them: bytes may have any values.
std::optional<DataFormat> likely_format(std::string_view file);

/// Why a file without header may be of another format than this one, and what to do then: "looks
/// like text, but is read as ...". "" if nothing speaks for it.
std::string doubt_about(std::string_view file, DataFormat format);

}  // namespace swarmpi
