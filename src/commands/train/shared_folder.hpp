#pragma once
// Journal, term files and checkpoints must lie where every host sees them: proven, not believed.

#include <optional>
#include <string>

#include "core/status.hpp"

namespace swarmpi {

/// A file that the first rank makes beside the run file, for the others to look for; it disappears
/// with this object.
class SharedFolderProbe {
 public:
  explicit SharedFolderProbe(const std::string& run_file);
  ~SharedFolderProbe();
  SharedFolderProbe(const SharedFolderProbe&) = delete;
  SharedFolderProbe& operator=(const SharedFolderProbe&) = delete;

  const Status& status() const { return status_; }
  /// Its path, for the others.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Status status_;
};

/// Whether this rank sees the probe that the first rank has made. Errors: bad_input.
Status see_probe(const std::string& path);

}  // namespace swarmpi
