#include "io/descriptor.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace swarmpi {

namespace {
const char* remedy(int error) {
  switch (error) {
    case ENOSPC:
      return " (no room left: free some, then resume)";
    case EDQUOT:
      return " (no room left in the quota: free some, then resume)";
    case EFBIG:
      return " (no room: the limit on file sizes is reached; see ulimit -f)";
    default:
      return "";
  }
}
}  // namespace

Status io_error(const std::string& doing, const std::string& path, int error) {
  return Status::stopped(
      fmt::format("{} {} failed: {}{}", doing, path, std::strerror(error), remedy(error)));
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor Descriptor::open(const std::string& path, int flags) {
  Descriptor opened;
  do {
    opened.number_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (opened.number_ < 0 && errno == EINTR);
  return opened;
}

int Descriptor::close() {
  return ::close(std::exchange(number_, -1)) == 0 || errno == EINTR ? 0 : errno;
}

int write_all(int descriptor, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = ::write(descriptor, data.data(), data.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written == 0) return EIO;
    if (written > 0) data.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

int write_all_at(int descriptor, std::string_view data, std::int64_t offset) {
  while (!data.empty()) {
    const ssize_t written = ::pwrite(descriptor, data.data(), data.size(), offset);
    if (written < 0 && errno != EINTR) return errno;
    if (written == 0) return EIO;
    if (written < 0) continue;
    data.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
  return 0;
}

int sync_descriptor(int descriptor) {
  while (::fsync(descriptor) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace swarmpi
