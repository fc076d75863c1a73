#include "data/mapped_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "data/test_files.hpp"
#include "io/test_support.hpp"

namespace swarmpi::mapped_file_test {
namespace {

TEST(MappedFile, MapsMoreFilesThanDescriptorsAreLeft) {
  const DataFolder folder;
  const std::string path = folder.write("a.bin", "abc");
  const FewDescriptors few(3);
  std::vector<MappedFile> files;
  for (int i = 0; i < 50; ++i) {
    Result<MappedFile> file = MappedFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    files.push_back(std::move(file).value());
  }
  for (const MappedFile& file : files) {
    EXPECT_EQ(file.bytes(), "abc");
    EXPECT_TRUE(file.is_unchanged());
    EXPECT_TRUE(file.can_be_read_anew());
    EXPECT_EQ(file.identity(), files.front().identity());
  }
}

TEST(MappedFile, StaysUnchangedWhenReplacedOrRemoved) {
  const DataFolder folder;
  const std::string path = folder.write("a.bin", "abc");
  const MappedFile file = MappedFile::open(path).value();
  std::filesystem::rename(folder.write("b.bin", "defgh"), path);
  EXPECT_TRUE(file.is_unchanged());
  EXPECT_EQ(file.bytes(), "abc");
  std::filesystem::remove(path);
  EXPECT_TRUE(file.is_unchanged());
}

TEST(MappedFile, IsChangedWhenWrittenInPlace) {
  const DataFolder folder;
  const std::string path = folder.write("a.bin", "abc");
  const MappedFile file = MappedFile::open(path).value();
  folder.write("a.bin", "abcd");
  EXPECT_FALSE(file.is_unchanged());
}

}  // namespace
}  // namespace swarmpi::mapped_file_test
