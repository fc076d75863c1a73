#pragma once
// A file that appears under its name only when all of it is on disk.

#include <string>
#include <string_view>

#include "core/status.hpp"

namespace swarmpi {

class AtomicFile {
 public:
  /// What stands between the name and the process id in the name of the unfinished file.
  static constexpr std::string_view kPartial = ".partial-";

  explicit AtomicFile(const std::string& path);
  /// Removes the unfinished file, if it was not published.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Errors: bad_input with file and reason.
  Status open();
  Status write(std::string_view bytes);
  /// Syncs and renames over whatever has the name.
  Status publish();

 private:
  Status failure() const;

  std::string path_;
  std::string partial_;
  int descriptor_ = -1;
};

}  // namespace swarmpi
