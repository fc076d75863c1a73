#include "data/foreign_file.hpp"

#include <gtest/gtest.h>

#include <string>

namespace swarmpi::foreign_file_test {
namespace {

std::string kind_of(std::string_view file) {
  const std::optional<ForeignFile> foreign = foreign_file(file);
  return foreign ? std::string(foreign->is) : "unknown";
}

TEST(ForeignFile, IsKnownByItsSignature) {
  const std::string rest(1000, 'x');
  EXPECT_EQ(kind_of("\x1F\x8B\x08" + rest), "compressed by gzip");
  EXPECT_EQ(kind_of("BZh91AY&SY" + rest), "compressed by bzip2");
  EXPECT_EQ(kind_of("\3757zXZ" + rest), "compressed by xz");
  EXPECT_EQ(kind_of("\x28\xB5\x2F\xFD" + rest), "compressed by zstd");
  EXPECT_EQ(kind_of("\x04\x22\x4D\x18" + rest), "compressed by lz4");
  EXPECT_EQ(kind_of("7z\xBC\xAF\x27\x1C" + rest), "a 7z archive");
  EXPECT_EQ(kind_of("PK\x03\x04" + rest), "a zip archive");
  EXPECT_EQ(kind_of("PK\x03\x04" + std::string(26, 'x') + "arr_0.npy" + rest),
            "a NumPy archive (.npz)");
  EXPECT_EQ(kind_of(std::string(257, '\0') + "ustar  " + rest), "a tar archive");
  EXPECT_EQ(kind_of("PAR1" + rest), "a Parquet table");
  EXPECT_EQ(kind_of("ARROW1" + rest), "an Arrow table");
  EXPECT_EQ(kind_of("\x89HDF\r\n\x1A\n" + rest), "an HDF5 file");
  EXPECT_EQ(kind_of("MMIDIDX" + rest), "the index of Megatron's tokens");
  EXPECT_EQ(kind_of("\177ELF" + rest), "a program or library (ELF)");
  EXPECT_EQ(kind_of("\x93NUMPY\x01" + rest), "a NumPy array (.npy)");
}

TEST(ForeignFile, IsUnknownWithoutAWholeSignature) {
  for (const char* const file : {"", "PK", "BZh is a word", "First Citizen: PAR1"}) {
    EXPECT_EQ(kind_of(file), "unknown") << file;
  }
  EXPECT_EQ(kind_of(std::string(257, '\0') + "ust"), "unknown");
}

}  // namespace
}  // namespace swarmpi::foreign_file_test
