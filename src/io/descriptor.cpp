#include "io/descriptor.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "io/file_calls.hpp"

namespace swarmpi {

namespace {
const char* remedy(int error) {
  switch (error) {
    case ENOSPC:
      return " (no room left: free some)";
    case EDQUOT:
      return " (no room left in the quota: free some)";
    case EFBIG:
      return " (no room: the limit on file sizes is reached; see ulimit -f)";
    case EMFILE:
      return " (see ulimit -n)";
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

Descriptor::Descriptor(Descriptor&& other) noexcept
    : number_(std::exchange(other.number_, -1)), path_(std::move(other.path_)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  std::swap(path_, other.path_);
  return *this;
}

Descriptor Descriptor::open(const std::string& path, int flags) {
  Descriptor opened;
  opened.path_ = path;
  const FileCall call("opening", path);
  if (call.refused()) {
    errno = ECANCELED;
    return opened;
  }
  flags |= O_CLOEXEC | O_NONBLOCK;
  do {
    opened.number_ = ::open(path.c_str(), flags, 0666);
    // A file server must first take back its promise to another host that nobody opens the file.
    if (opened.number_ < 0 && errno == EWOULDBLOCK && (flags & O_NONBLOCK) != 0) {
      flags &= ~O_NONBLOCK;
      errno = EINTR;
    }
  } while (opened.number_ < 0 && errno == EINTR);
  return opened;
}

int Descriptor::close() {
  const FileCall call("closing", path_);
  return ::close(std::exchange(number_, -1)) == 0 || errno == EINTR ? 0 : errno;
}

namespace {

// A call on more bytes may take long on a good disk, and what it writes is copied once more.
constexpr std::size_t kWriteBytes = 1 << 24;

/// `write` writes some bytes at an offset of `data`. 0 or an errno.
template <class Write>
int write_pieces(const Descriptor& file, std::string_view data, Write&& write) {
  std::vector<char> piece(std::min(kWriteBytes, data.size()));
  for (std::size_t done = 0; done < data.size();) {
    const std::size_t count = std::min(piece.size(), data.size() - done);
    if (!FileCalls::copy_unless_given_up(piece.data(), data.data() + done, count)) {
      return ECANCELED;
    }
    const FileCall call("writing", file.path());
    if (call.refused()) return ECANCELED;
    for (std::size_t written = 0; written < count;) {
      const ssize_t more = write(piece.data() + written, count - written, done + written);
      if (more < 0 && errno != EINTR) return errno;
      if (more == 0) return EIO;
      if (more > 0) written += static_cast<std::size_t>(more);
    }
    done += count;
  }
  return 0;
}

}  // namespace

int write_all(const Descriptor& file, std::string_view data) {
  return write_pieces(file, data, [&](const char* bytes, std::size_t count, std::size_t) {
    return ::write(file.number(), bytes, count);
  });
}

int write_all_at(const Descriptor& file, std::string_view data, std::int64_t offset) {
  return write_pieces(file, data, [&](const char* bytes, std::size_t count, std::size_t at) {
    return ::pwrite(file.number(), bytes, count, offset + static_cast<off_t>(at));
  });
}

std::int64_t read_at(const Descriptor& file, char* to, std::size_t count, std::int64_t offset) {
  const FileCall call("reading", file.path());
  if (call.refused()) return -1;
  std::size_t done = 0;
  while (done < count) {
    const ssize_t more =
        ::pread(file.number(), to + done, count - done, offset + static_cast<off_t>(done));
    if (more < 0 && errno != EINTR) return -1;
    if (more == 0) break;
    if (more > 0) done += static_cast<std::size_t>(more);
  }
  return static_cast<std::int64_t>(done);
}

int sync_descriptor(const Descriptor& file) {
  const FileCall call("syncing", file.path());
  if (call.refused()) return ECANCELED;
  while (::fsync(file.number()) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int remove_file(const std::string& path) {
  const FileCall call("removing", path);
  if (call.refused()) return ECANCELED;
  return ::unlink(path.c_str()) == 0 || errno == ENOENT ? 0 : errno;
}

int remove_empty_folder(const std::string& path) {
  const FileCall call("removing folder", path);
  if (call.refused()) return ECANCELED;
  const bool gone = ::rmdir(path.c_str()) == 0 || errno == ENOENT;
  return gone || errno == ENOTEMPTY || errno == EEXIST ? 0 : errno;
}

int link_file(const std::string& from, const std::string& to) {
  const FileCall call("linking a file to", to);
  if (call.refused()) return ECANCELED;
  return ::link(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

int rename_file(const std::string& from, const std::string& to) {
  const FileCall call("renaming a file to", to);
  if (call.refused()) return ECANCELED;
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace swarmpi
