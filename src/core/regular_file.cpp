#include "core/regular_file.hpp"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace swarmpi {
namespace {

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "folder";
  if (S_ISFIFO(mode)) return "pipe";
  if (S_ISSOCK(mode)) return "socket";
  return "device";
}

}  // namespace

std::string why_not_read(int descriptor, std::int64_t most_bytes) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return std::strerror(errno);
  if (!S_ISREG(info.st_mode)) return "it is a " + kind_of(info.st_mode) + ", not a file";
  return why_too_large(info.st_size, most_bytes);
}

std::string why_too_large(std::int64_t size_bytes, std::int64_t most_bytes) {
  if (size_bytes <= most_bytes) return "";
  return fmt::format("it is too large: {} bytes, {} are allowed", size_bytes, most_bytes);
}

}  // namespace swarmpi
