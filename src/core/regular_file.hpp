#pragma once
// The rule for every file that is read: a regular file of bounded size. A pipe may have no writer,
// a device no end.

#include <cstdint>
#include <string>

namespace swarmpi {

/// The most that is read of a file whose content is held in memory at once.
inline constexpr std::int64_t kMostReadBytes = std::int64_t{64} << 20;

/// "" for a regular file of at most `most_bytes`, otherwise what is wrong: "it is a folder".
/// `descriptor`: of the opened file.
std::string why_not_read(int descriptor, std::int64_t most_bytes);
/// The same for a size that is known.
std::string why_too_large(std::int64_t size_bytes, std::int64_t most_bytes);

}  // namespace swarmpi
