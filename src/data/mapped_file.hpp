#pragma once
// A file as bytes in memory, read on demand by the system.

#include <cstddef>
#include <string>
#include <string_view>

#include "core/status.hpp"

namespace swarmpi {

/// Limit: a file that is cut shorter while it is mapped ends the process with SIGBUS. Replace token
/// files by rename (as `prepare` does), never in place.
class MappedFile {
 public:
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  /// Errors: bad_input with the reason alone, to which the caller adds key and file.
  static Result<MappedFile> open(const std::string& path);

  std::string_view bytes() const { return {data_, size_bytes_}; }

 private:
  const char* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace swarmpi
