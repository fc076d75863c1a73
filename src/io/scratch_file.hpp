#pragma once
// Memory that does not fit: a file without a name, which is gone with this process.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/descriptor.hpp"

namespace swarmpi {

class ScratchFile {
 public:
  /// A place in the file; it may take up to `capacity` bytes when it is put again.
  struct Slot {
    std::int64_t offset = -1;
    std::size_t capacity = 0;
    std::size_t size = 0;
  };

  /// In this folder. "": there is none, and nothing can be put.
  explicit ScratchFile(const std::string& folder);

  /// False where there is no file, or no room: the caller keeps the bytes.
  bool put(std::string_view bytes, Slot& slot);
  /// False where they cannot be read, for whatever reason: then failed() for good.
  bool get(const Slot& slot, std::string& bytes);
  bool failed() const { return failed_; }

 private:
  Descriptor file_;
  std::int64_t end_ = 0;
  bool failed_ = false;
};

}  // namespace swarmpi
