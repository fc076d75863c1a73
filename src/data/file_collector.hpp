#pragma once
// Which files `prepare` reads.

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "core/status.hpp"

namespace swarmpi {

/// All regular files under the sources, each path once, in the order of the paths' bytes. A source
/// may be a link; links inside folders are not followed. `out` and what is left of its killed
/// makers are never among them.
class FileCollector {
 public:
  explicit FileCollector(const std::string& out) : out_(out) {}

  /// Errors: bad_input, if the source itself is missing, unreadable, or neither file nor folder.
  Status add_source(const std::string& source);

  const std::set<std::string>& paths() const { return paths_; }
  std::int64_t unreadable_folders() const { return unreadable_folders_; }

 private:
  void add_folder(const std::string& top);
  bool is_output(const std::filesystem::path& path) const;

  std::filesystem::path out_;
  std::set<std::string> paths_;
  std::int64_t unreadable_folders_ = 0;
};

}  // namespace swarmpi
