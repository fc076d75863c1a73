#pragma once
// The file by which a checkpoint exists. It is text with one item a line; the last line is the hash
// of all lines before:
//
//   swarmpi checkpoint 3                         the format and its version
//   step 100
//   leader leader.term-3.h5 <hash> <size in bytes>
//   stage stage-0.term-3.peer-0.h5 <hash> <size in bytes>
//   rows rows-steps-0.<hash> <hash> <size in bytes>       the run's rows, in the order to be read
//   end <hash of all above>
//
// The hash of a file is the one in its trailer.

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/files.hpp"

namespace swarmpi {

inline constexpr char kManifestName[] = "manifest";

struct Manifest {
  std::int64_t trailer_bytes = kTrailerBytes;  ///< of each file; 0 in version 1
  std::int64_t step = -1;
  StoredFile leader;
  std::vector<StoredFile> stages;
  std::vector<StoredFile> rows;  ///< segments (stored_rows.hpp); none in versions 1 and 2
};

std::string manifest_text(const Manifest& manifest);
/// Whether this build reads the version of the format that the text names. A text that names none
/// is not refused here.
Status check_manifest_version(const std::string& text, const std::string& path);
/// Errors: bad_input (cut off, changed, of another version, foreign), naming `path`.
Result<Manifest> parse_manifest(const std::string& text, const std::string& path);

}  // namespace swarmpi
