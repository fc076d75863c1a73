#include "io/hdf5/memory.hpp"

#include <gtest/gtest.h>

#include <random>

#include "io/test_support.hpp"

namespace swarmpi::memory_test {
namespace {

constexpr std::uint64_t kPages = 2 * SparseBytes::kPagesInMemory;

char byte_of(std::uint64_t page) { return static_cast<char>(1 + page % 100); }

/// Some bytes across the edge between each page and the next.
void write_edges(SparseBytes& bytes) {
  for (std::uint64_t page = 1; page < kPages; ++page) {
    const std::string text(10, byte_of(page));
    bytes.write(page * SparseBytes::kPageBytes - 5, text.data(), text.size());
  }
}

void expect_edges(SparseBytes& bytes) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t page = std::uniform_int_distribution<std::uint64_t>(1, kPages - 1)(random);
    std::string text(12, 'x');
    bytes.read(page * SparseBytes::kPageBytes - 6, text.data(), text.size());
    ASSERT_EQ(text, std::string(1, '\0') + std::string(10, byte_of(page)) + std::string(1, '\0'));
  }
  std::uint64_t pages = 0;
  EXPECT_EQ(bytes.for_each_page([&pages](std::uint64_t offset, std::string_view page) {
    EXPECT_EQ(offset, pages++ * SparseBytes::kPageBytes);
    return page.size() == SparseBytes::kPageBytes ? 0 : EIO;
  }),
            0);
  EXPECT_EQ(pages, kPages);
  EXPECT_FALSE(bytes.failed());
}

TEST(SparseBytes, OfManyPagesFewAreInMemory) {
  const TestFolder folder;
  SparseBytes bytes(folder / "pages");
  write_edges(bytes);
  expect_edges(bytes);
  EXPECT_LE(bytes.bytes_in_memory(),
            (SparseBytes::kPagesInMemory + 1) * (SparseBytes::kPageBytes + 64));
}

TEST(SparseBytes, WhereNoFileHasRoomAllStayInMemory) {
  SparseBytes bytes;
  write_edges(bytes);
  expect_edges(bytes);
}

}  // namespace
}  // namespace swarmpi::memory_test
