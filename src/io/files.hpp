#pragma once
// Files that survive a crash: what these functions report as written can be read after any kill or
// power loss.

#include <cstdint>
#include <functional>
#include <string>

#include "core/status.hpp"

namespace swarmpi {

/// The folder that a path lies in: "." where it names none.
std::string folder_of(const std::string& path);
/// Syncs a file, or a folder's entries, by path.
Status sync_path(const std::string& path);
/// Creates a folder and its parents where missing, durably. Errors: stopped.
Status create_folder(const std::string& folder);
/// Errors of the readers: bad_input.
Result<std::string> read_file(const std::string& path);
/// XXH3 over a file's bytes, and its size.
struct FileHash {
  std::uint64_t hash = 0;
  std::int64_t size_bytes = 0;
};
Result<FileHash> hash_file(const std::string& path);
/// Writes to a temporary name beside `path`, syncs, renames over `path`, syncs the folder. On error
/// no partial file is left. Errors: stopped (no room, I/O), with path and reason.
Status write_file_durably(const std::string& path, const std::string& content);
/// The same for a file that `write` writes into a descriptor, returning 0 or an errno. `hash`, if
/// given, receives that of the file's bytes.
Status write_file_durably(const std::string& path, const std::function<int(int descriptor)>& write,
                          FileHash* hash = nullptr);
/// Creates, syncs and removes a file in `folder`, or in the nearest folder above it that exists,
/// and checks that `needed_bytes` are free. Errors: bad_input.
Status prove_writable(const std::string& folder, std::int64_t needed_bytes);

}  // namespace swarmpi
