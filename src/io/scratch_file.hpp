#pragma once
// Memory that does not fit. The file has a name while it is used, so that the kernel does not free
// its blocks as a killed process ends: nobody is told of a death before that.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/descriptor.hpp"
#include "io/temporary_file.hpp"

namespace swarmpi {

class ScratchFile {
 public:
  /// A place in the file; it may take up to `capacity` bytes when it is put again.
  struct Slot {
    std::int64_t offset = -1;
    std::size_t capacity = 0;
    std::size_t size = 0;
  };

  /// With a hidden name beside `path`. "": there is none, and nothing can be put.
  explicit ScratchFile(const std::string& path);

  /// False where there is no file, or no room: the caller keeps the bytes.
  bool put(std::string_view bytes, Slot& slot);
  /// False where they cannot be read, for whatever reason: then failed() for good.
  bool get(const Slot& slot, std::string& bytes);
  bool failed() const { return failed_; }

  /// Those of this path, of processes that use them or were killed. A process of this host whose
  /// file is removed keeps what it has put.
  static std::vector<std::string> all_of(const std::string& path);

 private:
  std::optional<TemporaryFile> name_;  // removed after the descriptor is closed
  Descriptor file_;
  std::int64_t end_ = 0;
  bool failed_ = false;
};

}  // namespace swarmpi
