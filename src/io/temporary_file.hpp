#pragma once
// A temporary file beside another, for the next content of that one. It is removed if it is not
// published.

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

/// What killed writers of the same path left long ago.
enum class AbandonedFiles : std::uint8_t { go, stay };

class TemporaryFile {
 public:
  /// A name unique to this process and call.
  explicit TemporaryFile(std::string path, AbandonedFiles abandoned = AbandonedFiles::go);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& name() const { return name_; }
  /// Renames it over `path` and syncs the folder. REQUIRES: the caller has synced its content.
  Status publish();
  /// The file of that name is another's: it is not removed.
  void forget() { name_.clear(); }

 private:
  std::string path_, name_;
};

/// A name within a folder that remove_temporary_files() of the path with that last part removes.
/// `unique`: among all writers.
std::string temporary_name(const std::string& last_part, const std::string& unique);
/// Those of all writers of `path`, as far as they are seen.
std::vector<std::string> temporary_files(const std::string& path);
/// Removes what other writers of `path` have left, whatever its age: one of them may hang in its
/// rename, and must not put an older content there when it goes on. REQUIRES: no other writer has
/// the right to write `path` any more.
void remove_temporary_files(const std::string& path);
/// Whether a name within a folder is that of some TemporaryFile.
bool is_temporary_name(const std::string& name);

}  // namespace swarmpi
