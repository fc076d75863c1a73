#pragma once
// A file mapped into memory (mmap).

#include <sys/stat.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "core/status.hpp"

namespace swarmpi {

/// Limit: reading behind the end of a file that was cut shorter while mapped ends the process with
/// SIGBUS. Call is_unchanged() before reading, and after it before what was read is used; a cut
/// between the two is not noticed in time. Replace token files by rename (as `prepare` does), never
/// in place.
class MappedFile {
 public:
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  /// Errors: bad_input with the reason alone, to which the caller adds key and file.
  static Result<MappedFile> open(const std::string& path);

  std::string_view bytes() const { return {data_, size_bytes_}; }
  /// Device, number, size and time of the last change: equal only where processes of a host see the
  /// same file. "" where that cannot be known.
  std::string identity() const;
  /// Whether the file is as long, and was last written, as when it was opened. A file that was
  /// replaced by another or removed counts as unchanged.
  bool is_unchanged() const;
  /// Reads a little of the file from where it lies, not from what this machine remembers of it, as
  /// far as the file system allows. Whether that works.
  bool can_be_read_anew() const;

 private:
  std::string path_;
  const char* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  struct stat opened_ {};  // as the file was then
};

}  // namespace swarmpi
