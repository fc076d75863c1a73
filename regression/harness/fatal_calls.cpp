// A SIGKILL just before a given call of the file system, for tests: a library that is loaded before
// all others (LD_PRELOAD).
//
//   FATAL_FOLDER  calls that change something in this folder, or open a file there, are counted
//   FATAL_AT      the process kills itself before the call of this number; the first one is 1
//   FATAL_RANK    only the process of this rank does so; "": that which no MPI has started
//   FATAL_MARK    it makes this folder first
//   FATAL_COUNT   calls are not fatal; this file gets their number

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

const char* variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void note_count(std::int64_t number) {
  static const int file = real<int(const char*, int, ...)>("open")(
      variable("FATAL_COUNT"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const std::string text = std::to_string(number);
  static auto* const next = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  if (next(file, text.data(), text.size(), 0) < 0) ::abort();
}

void call_on(const char* path) {
  static const std::string folder = variable("FATAL_FOLDER");
  static const std::string rank = variable("FATAL_RANK");
  static const bool is_mine = rank == variable("OMPI_COMM_WORLD_RANK");
  static const std::int64_t fatal = std::atoll(variable("FATAL_AT"));
  static const bool counts = *variable("FATAL_COUNT") != '\0';
  static std::atomic<std::int64_t> calls{0};
  if (!is_mine || folder.empty() || std::strncmp(path, folder.c_str(), folder.size()) != 0) return;
  const std::int64_t number = ++calls;
  if (counts) return note_count(number);
  if (number != fatal) return;
  real<int(const char*, mode_t)>("mkdir")(variable("FATAL_MARK"), 0700);
  ::kill(::getpid(), SIGKILL);
  while (true) ::pause();  // until it has come
}

void call_on(int file) {
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  char path[4096];
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  call_on(path);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  call_on(path);
  static auto* const next = real<int(const char*, int, ...)>("open");
  return next(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open(path, flags, mode);
}

ssize_t write(int file, const void* data, size_t count) {
  call_on(file);
  static auto* const next = real<ssize_t(int, const void*, size_t)>("write");
  return next(file, data, count);
}

ssize_t pwrite(int file, const void* data, size_t count, off_t offset) {
  call_on(file);
  static auto* const next = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return next(file, data, count, offset);
}

ssize_t pwrite64(int file, const void* data, size_t count, off64_t offset) {
  return pwrite(file, data, count, offset);
}

int ftruncate(int file, off_t length) noexcept {
  call_on(file);
  static auto* const next = real<int(int, off_t)>("ftruncate");
  return next(file, length);
}

int ftruncate64(int file, off64_t length) noexcept { return ftruncate(file, length); }

int fsync(int file) {
  call_on(file);
  static auto* const next = real<int(int)>("fsync");
  return next(file);
}

int fdatasync(int file) {
  call_on(file);
  static auto* const next = real<int(int)>("fdatasync");
  return next(file);
}

int flock(int file, int operation) noexcept {
  call_on(file);
  static auto* const next = real<int(int, int)>("flock");
  return next(file, operation);
}

int mkdir(const char* path, mode_t mode) noexcept {
  call_on(path);
  static auto* const next = real<int(const char*, mode_t)>("mkdir");
  return next(path, mode);
}

int rename(const char* from, const char* to) noexcept {
  call_on(to);
  static auto* const next = real<int(const char*, const char*)>("rename");
  return next(from, to);
}

int unlink(const char* path) noexcept {
  call_on(path);
  static auto* const next = real<int(const char*)>("unlink");
  return next(path);
}

int remove(const char* path) noexcept {
  call_on(path);
  static auto* const next = real<int(const char*)>("remove");
  return next(path);
}

}  // extern "C"
