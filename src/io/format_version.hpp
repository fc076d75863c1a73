#pragma once
// The versions of all files of a run. Whoever changes the bytes of a format raises `newest` here,
// keeps its reader reading from `oldest`, and says so in docs/files.md. A file that has nothing new
// in it may be written in an older version, for builds that read no newer one.

#include <string>

#include "core/status.hpp"

namespace swarmpi {

struct FileFormat {
  const char* name;  ///< as a file gives it, before its version
  const char* what;  ///< for people: "X is WHAT"
  int oldest;        ///< version that this build reads
  int newest;        ///< version that it reads and writes

  /// As a file of that version gives its format: "swarmpi run 1".
  std::string mark(int version) const { return name + std::to_string(version); }
  std::string mark() const { return mark(newest); }
};

/// In version 1 the attributes `seed` and `complete` are texts.
inline constexpr FileFormat kRunFileFormat{"swarmpi run ", "a run file", 1, 2};
/// Of version 1: the files have no trailers, and the hashes are of all their bytes. Of 1 and 2: it
/// names no segments of rows.
inline constexpr FileFormat kManifestFormat{"swarmpi checkpoint ", "the manifest of a checkpoint",
                                            1, 3};
/// Version 1 has the tables of the run in it.
inline constexpr FileFormat kLeaderFileFormat{"swarmpi leader ",
                                              "the leader's part of a checkpoint", 1, 2};
/// Version 1 has whole tensors only; it is still written where there are no others.
inline constexpr FileFormat kStageFileFormat{"swarmpi stage ", "a stage's part of a checkpoint", 1,
                                             2};
inline constexpr FileFormat kWeightsFormat{"swarmpi weights ", "a file of weights", 1, 1};
/// Version 1 lacked /peers/microbatches; no released program has written it. Version 2 lacks
/// /peers/useful_s and /throughput/fraction_of_capacity, 2 and 3 /peers/transfer_s, 2 to 4 all of
/// /goodput, 2 to 5 the first term of a start.
inline constexpr FileFormat kJournalFormat{"SWJ", "a journal", 2, 6};

/// Whether this build reads the version that the file at `path` gives behind its format's name.
/// Errors: bad_input, naming file, version, the versions that are read, and what to do.
Status check_version(const FileFormat& format, const std::string& version, const std::string& path);

}  // namespace swarmpi
