#pragma once
// A file descriptor that closes itself, and the system calls of this layer with short writes and
// EINTR handled.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/status.hpp"

namespace swarmpi {

/// `stopped`: what was being done to which path, and why it failed (`error` is an errno). For a
/// full disk, quota or file size limit also what to do.
Status io_error(const std::string& doing, const std::string& path, int error);

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  /// Opens with O_CLOEXEC, and does not wait for the other end of a pipe. On failure the descriptor
  /// is invalid and errno says why.
  static Descriptor open(const std::string& path, int flags);

  const std::string& path() const { return path_; }
  bool valid() const { return number_ >= 0; }
  int number() const { return number_; }
  /// Closes it; returns 0 or an errno (network file systems may tell of a full disk only here).
  int close();

 private:
  int number_ = -1;
  std::string path_;  // that it was opened by
};

// All of these return 0 or an errno; ECANCELED where their task was given up (io/file_calls.hpp).

/// Writes all of `data`, by way of a copy.
int write_all(const Descriptor& file, std::string_view data);
int write_all_at(const Descriptor& file, std::string_view data, std::int64_t offset);
/// Reads up to `count` bytes; returns how many, fewer at the file's end only, or less than 0.
std::int64_t read_at(const Descriptor& file, char* to, std::size_t count, std::int64_t offset);
/// fsync.
int sync_descriptor(const Descriptor& file);
/// unlink; 0 also where there is no such file.
int remove_file(const std::string& path);
/// rmdir; 0 also where it is not empty, or not there.
int remove_empty_folder(const std::string& path);
/// A further name for a file (a hard link).
int link_file(const std::string& from, const std::string& to);
/// rename, which replaces what is at `to`.
int rename_file(const std::string& from, const std::string& to);

}  // namespace swarmpi
