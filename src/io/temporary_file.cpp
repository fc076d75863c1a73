#include "io/temporary_file.hpp"

#include <fmt/core.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <utility>

#include "core/hash.hpp"
#include "core/machine.hpp"
#include "io/descriptor.hpp"
#include "io/files.hpp"

namespace swarmpi {

namespace fs = std::filesystem;

namespace {

constexpr char kMark[] = ".part-";
/// Longer than any writer leaves its file untouched. One that was stopped for longer fails at its
/// rename.
constexpr std::chrono::minutes kAbandonedAfter{15};

/// Hidden, so that patterns like RUN*.h5 never catch it.
std::string prefix_of(const fs::path& path) { return "." + path.filename().string() + kMark; }

/// Processes in containers may have equal host names, and each be process 1.
std::string random_text() {
  std::uint64_t bits = 0;
  return ::getrandom(&bits, sizeof bits, 0) == sizeof bits ? hex(bits) : "";
}

void remove_abandoned(const std::string& path) {
  for (const std::string& name : temporary_files(path)) {
    std::error_code unknown;
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(name, unknown);
    if (!unknown && age > kAbandonedAfter) (void)remove_file(name);
  }
}

}  // namespace

TemporaryFile::TemporaryFile(std::string path, AbandonedFiles abandoned) : path_(std::move(path)) {
  static std::atomic<int> number{0};
  static const std::string bits = random_text();
  const fs::path target(path_);
  if (abandoned == AbandonedFiles::go) remove_abandoned(path_);
  const std::string name = temporary_name(
      target.filename().string(),
      fmt::format("{}-{}-{}-{}", host_name(), bits, ::getpid(), number.fetch_add(1)));
  name_ = (target.parent_path() / name).string();
}

TemporaryFile::~TemporaryFile() {
  if (!name_.empty()) ::unlink(name_.c_str());
}

Status TemporaryFile::publish() {
  if (const int error = rename_file(name_, path_)) {
    return io_error("renaming a temporary file to", path_, error);
  }
  name_.clear();
  return sync_path(folder_of(path_));
}

std::string temporary_name(const std::string& last_part, const std::string& unique) {
  return prefix_of(last_part) + unique;
}

std::vector<std::string> temporary_files(const std::string& path) {
  const std::string prefix = prefix_of(path);
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator at(folder_of(path), ignored), end; at != end; at.increment(ignored)) {
    if (ignored) break;
    if (at->path().filename().string().rfind(prefix, 0) != 0) continue;
    std::error_code unknown;
    if (at->is_regular_file(unknown) && !at->is_symlink(unknown)) names.push_back(at->path());
  }
  return names;
}

void remove_temporary_files(const std::string& path) {
  for (const std::string& name : temporary_files(path)) (void)remove_file(name);
}

bool is_temporary_name(const std::string& name) {
  return name.rfind('.', 0) == 0 && name.find(kMark) != std::string::npos;
}

}  // namespace swarmpi
