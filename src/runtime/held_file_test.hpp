#pragma once
// A file whose opening hangs, as on a file server that does not answer.

#include <string>

namespace swarmpi {

/// While it lives, each call of open() for this path by this process waits for release(). One at a
/// time.
class HeldFile {
 public:
  /// Creates the file, which is empty.
  explicit HeldFile(const std::string& path);
  ~HeldFile() { release(); }
  HeldFile(const HeldFile&) = delete;
  HeldFile& operator=(const HeldFile&) = delete;

  static void release();
};

}  // namespace swarmpi
