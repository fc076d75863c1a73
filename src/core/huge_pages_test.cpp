#include "core/huge_pages.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace swarmpi {
namespace {

/// Whether what lies here asks for huge pages, as the kernel says; "" where it knows of none.
[[maybe_unused]] std::string flags_at(const void* address) {
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

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which have their own heaps
TEST(HugePages, AreAskedForWhatIsAllocatedAfterwards) {
  const bool are_known = std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good();
  constexpr std::size_t kBytes = std::size_t{64} << 20, kPiece = 1 << 10;
  prefer_huge_pages(kBytes);
  // Those that fill holes of the heap may lie elsewhere.
  std::vector<std::vector<char>> pieces(kBytes / kPiece / 2, std::vector<char>(kPiece));
  std::size_t huge = 0;
  for (std::size_t i = 0; i < pieces.size(); i += pieces.size() / 16) {
    if (flags_at(pieces[i].data()).find(" hg ") != std::string::npos) ++huge;
  }
  EXPECT_GE(huge, are_known ? 14U : 0U);
}
#endif

}  // namespace
}  // namespace swarmpi
