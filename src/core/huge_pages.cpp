#include "core/huge_pages.hpp"

#include <cstdlib>

#if defined(__linux__) && defined(__GLIBC__)
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace swarmpi {

#if defined(__linux__) && defined(__GLIBC__)

// A block of so many bytes is taken from glibc's heap, the kernel is told of it before any of it is
// used, and it is given back: from then on it is what the heap deals out.
void prefer_huge_pages(std::int64_t bytes) {
  constexpr std::int64_t kMiB = 1 << 20, kHugePage = 2 * kMiB;
  constexpr int kMapsByDefault = 65536;
  // Where malloc() itself found out, it would leave the heap for good.
  if (sbrk(bytes) == reinterpret_cast<void*>(-1)) return;
  sbrk(-bytes);
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);
  mallopt(M_TRIM_THRESHOLD, -1);  // never: the block is to stay
  mallopt(M_MMAP_MAX, 0);         // the block comes from the heap
  char* volatile block = static_cast<char*>(std::malloc(static_cast<std::size_t>(bytes)));
  mallopt(M_MMAP_MAX, kMapsByDefault);
  if (block == nullptr) return;
  const std::int64_t into_page =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(block)) % kHugePage;
  const std::int64_t before = (kHugePage - into_page) % kHugePage;
  if (bytes > before) {
    (void)madvise(block + before, static_cast<std::size_t>(bytes - before), MADV_HUGEPAGE);
  }
  std::free(block);
}

#else

void prefer_huge_pages(std::int64_t /*bytes*/) {}

#endif

}  // namespace swarmpi
