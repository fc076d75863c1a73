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
  if (error == ENOENT) return std::strerror(error) + relative_to(path);
  return std::strerror(error) + std::string(error == EMFILE ? " (see ulimit -n)" : "");
}

}  // namespace swarmpi
