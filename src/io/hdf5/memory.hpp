#pragma once
// An HDF5 file driver whose files are sparse memory, so that HDF5 never writes to a full disk.

#include <cstdint>
#include <map>
#include <string>

#include "io/hdf5/handle.hpp"

namespace swarmpi {

/// The bytes that HDF5 wrote, in pages; what it never wrote takes no memory.
class SparseBytes {
 public:
  void write(std::uint64_t offset, const void* data, std::size_t size_bytes);
  /// What was never written reads as zeros.
  void read(std::uint64_t offset, void* data, std::size_t size_bytes) const;

  /// The size that HDF5 has allocated; it may have written less.
  void set_size(std::uint64_t size_bytes) { size_bytes_ = size_bytes; }
  std::uint64_t size_bytes() const { return size_bytes_; }

  static constexpr std::size_t kPageBytes = 1 << 16;
  /// By page number.
  const std::map<std::uint64_t, std::string>& pages() const { return pages_; }

 private:
  std::map<std::uint64_t, std::string> pages_;
  std::uint64_t size_bytes_ = 0;
};

/// Creates an HDF5 file whose bytes go to `bytes`, which must outlive it.
Hdf5Handle create_in_memory(SparseBytes& bytes);

}  // namespace swarmpi
