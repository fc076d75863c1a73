#include "kernels/native/aligned_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "core/check.hpp"

namespace swarmpi::kernels::native {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;  // the rest behind the last huge page takes small ones
constexpr std::size_t kHugePage = std::size_t{1} << 21;

std::size_t rounded_up(std::size_t size, std::size_t unit) {
  return (size + unit - 1) / unit * unit;
}

/// Straight from the system, whatever malloc's thresholds are: it goes back there when it is freed.
void* map_huge_pages(std::size_t size) {
  void* const mapped =
      mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const std::size_t before = rounded_up(reinterpret_cast<std::uintptr_t>(mapped), kHugePage) -
                             reinterpret_cast<std::uintptr_t>(mapped);
  char* const data = static_cast<char*>(mapped) + before;
  if (before > 0) munmap(mapped, before);
  if (before < kHugePage) munmap(data + size, kHugePage - before);
  madvise(data, size, MADV_HUGEPAGE);  // advice: may be refused
  return data;
}

}  // namespace

AlignedMemory::AlignedMemory(std::size_t size_bytes) : size_bytes_(size_bytes) {
  const bool large = size_bytes >= kHugePage;
  taken_ = rounded_up(std::max<std::size_t>(size_bytes, 1), large ? kPage : kAlignment);
  data_ = large ? map_huge_pages(taken_) : std::aligned_alloc(kAlignment, taken_);
  SWARMPI_CHECK(data_ != nullptr, "no memory for " + std::to_string(taken_) + " bytes");
  std::memset(data_, 0, size_bytes);
}

AlignedMemory::~AlignedMemory() {
  if (size_bytes_ >= kHugePage) {
    munmap(data_, taken_);
  } else {
    std::free(data_);
  }
}

void* Scratch::take(std::size_t size_bytes) {
  if (memory_ == nullptr || memory_->size_bytes() < size_bytes) {
    memory_.reset();
    memory_ = std::make_unique<AlignedMemory>(size_bytes);
  }
  return memory_->data();
}

}  // namespace swarmpi::kernels::native
