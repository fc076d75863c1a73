#pragma once
// A name beside a file under which its next content is prepared. What is not published disappears.

#include <string>

#include "core/status.hpp"

namespace swarmpi {

class TemporaryFile {
 public:
  /// A name unique to this process and call. Also removes what killed writers of the same `path`
  /// left long ago.
  explicit TemporaryFile(std::string path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& name() const { return name_; }
  /// Renames it, which the caller has synced, over `path` and syncs the folder.
  Status publish();

 private:
  std::string path_, name_;
};

/// Whether a name within a folder is that of some TemporaryFile.
bool is_temporary_name(const std::string& name);

}  // namespace swarmpi
