#include "data/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace swarmpi {

AtomicFile::AtomicFile(const std::string& path)
    : path_(path), partial_(path + std::string(kPartial) + std::to_string(::getpid())) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(partial_.c_str());
}

Status AtomicFile::open() {
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return descriptor_ < 0 ? failure() : Status{};
}

Status AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure();
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status AtomicFile::publish() {
  if (::fsync(descriptor_) != 0) return failure();
  if (::rename(partial_.c_str(), path_.c_str()) != 0) return failure();
  ::close(std::exchange(descriptor_, -1));
  return {};
}

Status AtomicFile::failure() const {
  return Status::bad_input(path_ + ": cannot be written: " + std::strerror(errno));
}

}  // namespace swarmpi
