#pragma once
// For tests: a folder that is removed again, and what stands in its files.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace swarmpi {

class DataFolder {
 public:
  DataFolder() {
    std::string pattern = testing::TempDir() + "swarmpi_data_XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~DataFolder() { std::filesystem::remove_all(path_); }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

  /// Writes a file, with the folders above it, and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }
  std::string write_u16(const std::string& name, const std::vector<std::uint16_t>& tokens) const {
    return write(name,
                 std::string(reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size()));
  }
  std::string write_u32(const std::string& name, const std::vector<std::uint32_t>& tokens) const {
    return write(name,
                 std::string(reinterpret_cast<const char*>(tokens.data()), 4 * tokens.size()));
  }

 private:
  std::filesystem::path path_;
};

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace swarmpi
