#include "kernels/native/aligned_memory.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/check.hpp"

namespace swarmpi::kernels::native {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{1} << 21;

std::size_t rounded_up(std::size_t size, std::size_t unit) {
  return (size + unit - 1) / unit * unit;
}

}  // namespace

AlignedMemory::AlignedMemory(std::size_t size_bytes) : size_bytes_(size_bytes) {
  const std::size_t alignment = size_bytes >= kHugePage ? kHugePage : kAlignment;
  const std::size_t taken = rounded_up(size_bytes > 0 ? size_bytes : 1, kAlignment);
  SWARMPI_CHECK(posix_memalign(&data_, alignment, taken) == 0,
                "no memory for " + std::to_string(taken) + " bytes");
  if (alignment == kHugePage) madvise(data_, taken, MADV_HUGEPAGE);  // advice: may be refused
  std::memset(data_, 0, taken);
}

AlignedMemory::~AlignedMemory() { std::free(data_); }

void* Scratch::take(std::size_t size_bytes) {
  if (memory_ == nullptr || memory_->size_bytes() < size_bytes) {
    memory_.reset();
    memory_ = std::make_unique<AlignedMemory>(size_bytes);
  }
  return memory_->data();
}

}  // namespace swarmpi::kernels::native
