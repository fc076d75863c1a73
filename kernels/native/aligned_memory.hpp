#pragma once
// Memory of the native backend, and scratch memory that grows when a larger shape is first seen.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::native {

class AlignedMemory : public Memory {
 public:
  /// Zeroed here, by the calling thread. Ends the process if there is no memory left.
  explicit AlignedMemory(std::size_t size_bytes);
  ~AlignedMemory() override;
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;

  void* data() override { return data_; }
  const void* data() const { return data_; }
  std::size_t size_bytes() const override { return size_bytes_; }

 private:
  std::size_t size_bytes_;
  std::size_t taken_ = 0;  // bytes, rounded up
  void* data_ = nullptr;
};

/// One purpose's scratch. take() of no more than was ever taken allocates nothing.
class Scratch {
 public:
  void* take(std::size_t size_bytes);
  template <class T>
  T* take_array(std::int64_t count) {
    return static_cast<T*>(take(static_cast<std::size_t>(count) * sizeof(T)));
  }

 private:
  std::unique_ptr<AlignedMemory> memory_;
};

/// So much of this scratch memory is needed for a shape: taken or only counted.
struct Need {
  Scratch& scratch;
  std::size_t size_bytes;

  Need(Scratch& s, std::size_t bytes) : scratch(s), size_bytes(bytes) {}
  template <class T>
  static Need of(Scratch& s, std::int64_t count) {
    return {s, static_cast<std::size_t>(count) * sizeof(T)};
  }
};
template <class Needs>
void take_all(const Needs& needs) {
  for (const Need& need : needs) need.scratch.take(need.size_bytes);
}
template <class Needs>
std::size_t total_bytes(const Needs& needs) {
  std::size_t sum = 0;
  for (const Need& need : needs) sum += need.size_bytes;
  return sum;
}

/// Elements from row to row: rows start at 64 bytes, and strides keep clear of the multiples of 512
/// bytes, whose rows compete for the same few sets of the caches (and halve oneDNN's speed at 4
/// KiB).
constexpr std::int64_t padded_stride(std::int64_t columns, std::int64_t element_bytes) {
  constexpr std::int64_t kLineBytes = 64;
  constexpr std::int64_t kBadBytes = 512;
  std::int64_t bytes = (columns * element_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  if (bytes % kBadBytes == 0) bytes += kLineBytes;
  return bytes / element_bytes;
}

}  // namespace swarmpi::kernels::native
