#include "io/files.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>
#include <vector>

#include "core/clock.hpp"
#include "core/hash.hpp"
#include "core/missing_file.hpp"
#include "io/descriptor.hpp"
#include "io/file_calls.hpp"
#include "io/temporary_file.hpp"

namespace swarmpi {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kPieceBytes = 1 << 20;

std::string trailer(std::uint64_t hash) { return "\nswarmpi end " + hex(hash) + "\n"; }

/// 0 or an errno.
int sync_by_path(const std::string& path) {
  const Descriptor file = Descriptor::open(path, O_RDONLY);
  const int error = file.valid() ? sync_descriptor(file) : errno;
  // Some file systems cannot sync a folder and say so; they keep renames in order by themselves.
  return error == EINVAL ? 0 : error;
}

/// Creates a folder and its parents, each with its entry synced. 0 or an errno.
int create_folders(const fs::path& folder) {
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored)) return 0;
  const fs::path parent = folder.parent_path();
  if (const int error = parent == folder ? 0 : create_folders(parent)) return error;
  const FileCall call("creating folder", folder.string());
  if (call.refused()) return ECANCELED;
  if (::mkdir(folder.c_str(), 0777) != 0) {
    const int error = errno;
    return error == EEXIST && fs::is_directory(folder, ignored) ? 0 : error;
  }
  return sync_by_path(folder_of(folder.string()));
}

Status unreadable(const std::string& path, const std::string& why) {
  return Status::bad_input(fmt::format("cannot read {}: {}", path, why));
}

/// Hands a file's bytes to `use` in pieces.
Status read_pieces(const std::string& path, std::int64_t most_bytes,
                   const std::function<void(const char* data, std::size_t size_bytes)>& use) {
  const Result<OpenedFile> opened = open_to_read(path, most_bytes);
  if (!opened.ok()) return unreadable(path, opened.status().message());
  std::vector<char> piece(kPieceBytes);
  std::int64_t done_bytes = 0;
  while (true) {
    const FileCall call("reading", path);
    if (call.refused()) return unreadable(path, std::strerror(ECANCELED));
    const ssize_t count = ::read(opened.value().file.number(), piece.data(), piece.size());
    if (count == 0) return {};
    if (count < 0 && errno != EINTR) return unreadable(path, std::strerror(errno));
    if (count < 0) continue;
    done_bytes += count;
    // A file of the kernel says that it has no bytes; another may grow.
    const std::string why = why_too_large(done_bytes, most_bytes);
    if (!why.empty()) return unreadable(path, why);
    use(piece.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

Result<OpenedFile> open_to_read(const std::string& path, std::int64_t most_bytes) {
  OpenedFile opened{Descriptor::open(path, O_RDONLY), 0};
  if (!opened.file.valid()) return Status::stopped(file_error(path, errno));
  const std::string why_not = why_not_read(opened.file.number(), most_bytes);
  if (!why_not.empty()) return Status::bad_input(why_not);
  struct stat found {};
  if (::fstat(opened.file.number(), &found) != 0) return Status::stopped(std::strerror(errno));
  opened.size_bytes = found.st_size;
  return opened;
}

std::string folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

Status sync_path(const std::string& path) {
  const int error = sync_by_path(path);
  return error == 0 ? Status() : io_error("syncing", path, error);
}

void refresh_folder(const std::string& folder) {
  const Descriptor opened = Descriptor::open(folder, O_RDONLY | O_DIRECTORY);
}

bool wait_until_seen(const std::string& folder, const std::function<bool()>& look,
                     double patience_s) {
  constexpr std::chrono::milliseconds kPause(50);
  const WallClock clock;
  while (!look()) {
    if (clock.now_s() >= patience_s) return false;
    refresh_folder(folder);
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

Status create_folder(const std::string& folder) {
  // "a/b/" has an empty last part: without it the parent is what it seems to be.
  fs::path path(folder);
  if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();
  if (const int error = create_folders(path)) return io_error("creating folder", folder, error);
  return {};
}

bool holds_something(const std::string& path) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return false;
  return !fs::is_regular_file(path, error) || fs::file_size(path, error) > 0 || error;
}

Status refuse_what_is_no_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status) || fs::is_regular_file(status)) return {};
  return Status::bad_input(path + " is there and is no file: name a file");
}

std::string behind_links(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path whole = fs::weakly_canonical(path, error);
  return error ? path : whole.string();
}

Status write_file_durably(const std::string& path, const std::string& content,
                          const MayPublish& may_publish) {
  return write_file_durably(
      path, [&](const Descriptor& file) { return write_all(file, content); }, nullptr, may_publish);
}

Status write_file_durably(const std::string& path,
                          const std::function<int(const Descriptor& file)>& write, FileHash* hash,
                          const MayPublish& may_publish) {
  TemporaryFile temporary(path);
  Descriptor file = Descriptor::open(temporary.name(), O_WRONLY | O_CREAT | O_EXCL);
  if (!file.valid()) return io_error("creating", path, errno);
  if (const int error = write(file)) return io_error("writing", path, error);
  if (hash != nullptr) {
    const Result<FileHash> found = hash_file(temporary.name());
    if (!found.ok()) return Status::stopped(found.status().message());
    *hash = found.value();
    if (const int error = write_all_at(file, trailer(hash->hash), hash->size_bytes)) {
      return io_error("writing", path, error);
    }
    hash->size_bytes += kTrailerBytes;
  }
  if (const int error = sync_descriptor(file)) return io_error("syncing", path, error);
  if (const int error = file.close()) return io_error("closing", path, error);
  if (const Status may = may_publish ? may_publish() : Status(); !may.ok()) {
    return Status::stopped(path + " was not replaced: " + may.message());
  }
  return temporary.publish();
}

Result<std::string> read_file(const std::string& path, std::int64_t most_bytes) {
  std::string content;
  const auto use = [&content](const char* data, std::size_t size_bytes) {
    content.append(data, size_bytes);
  };
  const Status read = read_pieces(path, most_bytes, use);
  if (!read.ok()) return read;
  return content;
}

Result<FileHash> hash_file(const std::string& path, std::int64_t trailer_bytes) {
  StreamHash hash;
  FileHash result;
  std::string held;  // so many bytes may be the trailer's
  const auto trailer_size = static_cast<std::size_t>(trailer_bytes);
  constexpr std::int64_t kAnySize = std::numeric_limits<std::int64_t>::max();
  const Status read = read_pieces(path, kAnySize, [&](const char* data, std::size_t size_bytes) {
    result.size_bytes += static_cast<std::int64_t>(size_bytes);
    if (trailer_size == 0) return hash.add(data, size_bytes);
    held.append(data, size_bytes);
    if (held.size() <= trailer_size) return;
    hash.add(held.data(), held.size() - trailer_size);
    held.erase(0, held.size() - trailer_size);
  });
  if (!read.ok()) return read;
  result.hash = hash.value();
  return result;
}

Status check_trailer(const std::string& path, const FileHash& expected) {
  const Result<OpenedFile> opened = open_to_read(path);
  if (opened.status().code() == ExitStatus::stopped) {
    return Status::stopped(fmt::format("reading {} failed: {}", path, opened.status().message()));
  }
  if (!opened.ok()) return unreadable(path, opened.status().message());
  const auto& [file, size_bytes] = opened.value();
  if (size_bytes != expected.size_bytes) {
    return Status::bad_input(
        fmt::format("{} has {} bytes instead of {}", path, size_bytes, expected.size_bytes));
  }
  std::string end(static_cast<std::size_t>(kTrailerBytes), '\0');
  const ssize_t count = ::pread(file.number(), end.data(), end.size(), size_bytes - kTrailerBytes);
  if (count < 0) return io_error("reading", path, errno);
  if (end == trailer(expected.hash)) return {};
  return Status::bad_input(path + " does not end with its hash, " + hex(expected.hash));
}

Status prove_writable(const std::string& folder, std::int64_t needed_bytes) {
  const std::string wanted = folder.empty() ? "." : folder;
  const auto refused = [&wanted](const std::string& why) {
    return Status::bad_input(fmt::format("cannot write into folder {}: {}", wanted, why));
  };
  // A folder that is missing will be created in the nearest one above it that exists.
  std::error_code error_code;
  fs::path nearest = fs::absolute(wanted, error_code);
  if (error_code) return refused("the working directory: " + error_code.message());
  while (!fs::exists(nearest, error_code) && nearest.has_relative_path())
    nearest = nearest.parent_path();
  if (!fs::is_directory(nearest, error_code)) return refused(nearest.string() + " is not a folder");
  const TemporaryFile probe((nearest / "probe").string());
  const Descriptor file = Descriptor::open(probe.name(), O_WRONLY | O_CREAT | O_EXCL);
  if (!file.valid()) return refused(std::strerror(errno));
  int error = write_all(file, "Can this folder be written?\n");
  if (error == 0) error = sync_descriptor(file);
  if (error != 0) return refused(std::strerror(error));
  struct statvfs space {};
  if (::statvfs(nearest.c_str(), &space) != 0) return refused(std::strerror(errno));
  const double free_bytes =
      static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  if (free_bytes < static_cast<double>(needed_bytes)) {
    return refused(fmt::format("there is no room: {:.1f} MB are needed, {:.1f} MB are free",
                               static_cast<double>(needed_bytes) / 1e6, free_bytes / 1e6));
  }
  return {};
}

}  // namespace swarmpi
