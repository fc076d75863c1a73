#include "core/missing_file.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace swarmpi {

std::string relative_to(const std::string& path) {
  std::error_code unknown;
  const std::string here = std::filesystem::current_path(unknown).string();
  if (unknown || !std::filesystem::path(path).is_relative()) return "";
  return "; the working directory is " + here;
}

std::string file_error(const std::string& path, int error) {
  return std::strerror(error) + (error == ENOENT ? relative_to(path) : "");
}

}  // namespace swarmpi
