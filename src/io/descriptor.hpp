#pragma once
// A file descriptor that closes itself, and the system calls of this layer with short writes and
// EINTR handled.

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

  /// Opens with O_CLOEXEC. On failure the descriptor is invalid and errno says why.
  static Descriptor open(const std::string& path, int flags);

  bool valid() const { return number_ >= 0; }
  int number() const { return number_; }
  /// Closes it; returns 0 or an errno (network file systems may tell of a full disk only here).
  int close();

 private:
  int number_ = -1;
};

/// Writes all of `data`; returns 0 or an errno.
int write_all(int descriptor, std::string_view data);
int write_all_at(int descriptor, std::string_view data, std::int64_t offset);
/// fsync; returns 0 or an errno.
int sync_descriptor(int descriptor);

}  // namespace swarmpi
