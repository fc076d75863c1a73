#pragma once
// What was built, from which commit, by which compiler: stored in every output, printed by `info`
// and `--version`.

#include <string>

namespace swarmpi {

struct BuildInfo {
  std::string version;  ///< of the project, e.g. "0.1.0"
  std::string commit;  ///< short hash, "-dirty" where files were changed; "unknown" outside a clone
  std::string compiler;      ///< name and version
  std::string build_type;    ///< e.g. "Release"
  std::string flags;         ///< of all code, in the order the compiler sees them
  std::string architecture;  ///< -march of the native kernels
};
const BuildInfo& build_info();

/// For the attribute `version` of outputs: "0.1.0 (1a2b3c4d)".
std::string version_line();

/// For the attribute `build` of outputs: compiler, build type, architecture and flags in one line.
std::string build_line();

}  // namespace swarmpi
