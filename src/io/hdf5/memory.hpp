#pragma once
// An HDF5 file driver whose files are sparse memory, so that HDF5 never writes to a full disk.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "io/hdf5/handle.hpp"
#include "io/scratch_file.hpp"

namespace swarmpi {

/// The bytes that HDF5 wrote, in pages; what it never wrote takes no memory, and of many pages most
/// are in a scratch file.
class SparseBytes {
 public:
  /// `scratch_path`: of a ScratchFile; "": all pages stay in memory.
  explicit SparseBytes(const std::string& scratch_path = "") : scratch_(scratch_path) {}

  void write(std::uint64_t offset, const void* data, std::size_t size_bytes);
  /// What was never written reads as zeros.
  void read(std::uint64_t offset, void* data, std::size_t size_bytes);

  /// The size that HDF5 has allocated; it may have written less.
  void set_size(std::uint64_t size_bytes) { size_bytes_ = size_bytes; }
  std::uint64_t size_bytes() const { return size_bytes_; }

  static constexpr std::size_t kPageBytes = 1 << 16;
  static constexpr std::size_t kPagesInMemory = 256;
  /// use(offset, bytes) of each page in order, until it returns another error than 0; returns that.
  int for_each_page(const std::function<int(std::uint64_t offset, std::string_view bytes)>& use);
  std::size_t bytes_in_memory() const {
    std::size_t count = 0;
    for (const auto& [number, page] : pages_) count += page.bytes.capacity();
    return count;
  }
  /// Whether what was written can be read back.
  bool failed() const { return scratch_.failed(); }

 private:
  struct Page {
    std::string bytes;  // empty where the slot has them
    ScratchFile::Slot slot;
  };

  std::string& load(std::uint64_t number);
  void make_room(std::uint64_t for_number);

  ScratchFile scratch_;
  std::map<std::uint64_t, Page> pages_;
  std::deque<std::uint64_t> in_memory_;  // numbers of pages, those loaded first first
  std::uint64_t size_bytes_ = 0;
};

/// Creates an HDF5 file whose bytes go to `bytes`, which must outlive it.
Hdf5Handle create_in_memory(SparseBytes& bytes);

}  // namespace swarmpi
