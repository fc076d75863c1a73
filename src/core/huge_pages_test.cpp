#include "core/huge_pages.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace swarmpi::huge_pages_test {
namespace {

// Sanitizers have their own heaps, other C libraries as well.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

/// What the kernel says of the memory that lies here; "" where it says nothing.
std::string flags_at(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0, end = 0;
    char dash = 0;
    if (std::istringstream range(line); range >> std::hex >> first >> dash >> end && dash == '-') {
      here = first <= at && at < end;
    }
    if (here && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

// First of its suite: a heap that has huge pages keeps them until its process ends.
TEST(HugePages, WhereSoMuchIsRefusedTheHeapIsAsBefore) {
  prefer_huge_pages(std::int64_t{1} << 60);
  const std::string flags = flags_at(std::vector<char>(1 << 10).data());
  EXPECT_EQ(flags.find(" hg "), std::string::npos);
}

TEST(HugePages, AreAskedForWhatIsAllocatedAfterwards) {
  const bool has_them = std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good();
  constexpr std::size_t kBytes = std::size_t{64} << 20, kPiece = 1 << 10;
  prefer_huge_pages(kBytes);
  // Those that fill holes of the heap may lie elsewhere.
  std::vector<std::vector<char>> pieces(kBytes / kPiece / 2, std::vector<char>(kPiece));
  int told = 0, huge = 0;
  for (std::size_t i = 0; i < pieces.size(); i += pieces.size() / 16) {
    const std::string flags = flags_at(pieces[i].data());
    told += flags.empty() ? 0 : 1;
    huge += flags.find(" hg ") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(huge, has_them ? told - 2 : 0);
}

#endif

}  // namespace
}  // namespace swarmpi::huge_pages_test
