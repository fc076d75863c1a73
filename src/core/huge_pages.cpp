#include "core/huge_pages.hpp"

#if defined(__linux__) && defined(__GLIBC__)
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#endif

namespace swarmpi {

#if defined(__linux__) && defined(__GLIBC__)

// glibc's heap grows at its end, by what is asked for and a pad. With a pad of all the bytes it
// grows once, and the kernel can be told of them before the first is used.
void prefer_huge_pages(std::size_t bytes) {
  constexpr int kMiB = 1 << 20;
  constexpr std::uintptr_t kHugePage = 2 * kMiB;
  constexpr std::size_t kMost = std::numeric_limits<int>::max() / 2;  // an int, for mallopt()
  const auto end_of_heap = [] { return reinterpret_cast<std::uintptr_t>(sbrk(0)); };
  const std::uintptr_t before = end_of_heap();
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, static_cast<int>(std::min(bytes, kMost)));
  void* volatile grows = std::malloc(16 * kMiB);
  std::free(grows);
  mallopt(M_TOP_PAD, kMiB);
  const std::uintptr_t first = (before + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = end_of_heap();
  if (end > first) (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

#else

void prefer_huge_pages(std::size_t /*bytes*/) {}

#endif

}  // namespace swarmpi
