// A file system that stops answering, for tests: a library that is loaded before all others
// (LD_PRELOAD) and lets a call hang for as long as a file exists.
//
//   HANGING_CALL   which calls: "stat fsync pwrite open"; stat: fstat, too; create: an open that
//                  creates the file; read: one that only reads
//   HANGING_NAME   parts of the paths of the files concerned: ".bin stage-"
//   HANGING_WHILE  the calls hang while this file exists
//   HANGING_RANKS  "0 3": on these ranks only; else on all
//
// Where a rank hangs first it makes the folder $HANGING_WHILE.RANK, whose time says since when.
// Whoever hangs sleeps, and can be killed: a disk that leaves its callers unkillable is another
// thing (fsfreeze).

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

namespace {

constexpr useconds_t kPauseUs = 20'000;

const char* variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

bool has_word(const char* text, const char* word) {
  std::istringstream words(text);
  for (std::string next; words >> next;) {
    if (next == word) return true;
  }
  return false;
}

bool has_part(const char* text, const char* parts) {
  std::istringstream words(parts);
  for (std::string next; words >> next;) {
    if (std::strstr(text, next.c_str()) != nullptr) return true;
  }
  return false;
}

bool hangs_now(const char* call) {
  return has_word(variable("HANGING_CALL"), call) && ::access(variable("HANGING_WHILE"), F_OK) == 0;
}

// Returns when what is done to this file may go on.
void hang_at(const char* path) {
  const char* const ranks = std::getenv("HANGING_RANKS");
  const char* const mine = variable("OMPI_COMM_WORLD_RANK");
  const std::string flag = variable("HANGING_WHILE");
  if (!has_part(path, variable("HANGING_NAME"))) return;
  if (ranks != nullptr && !has_word(ranks, mine)) return;
  ::mkdir((flag + "." + mine).c_str(), 0700);
  while (::access(flag.c_str(), F_OK) == 0) ::usleep(kPauseUs);
}

void hang(const char* call, int file) {
  if (!hangs_now(call)) return;
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  char path[4096];
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  hang_at(path);
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int fstat(int file, struct stat* found) noexcept {
  hang("stat", file);
  static auto* const next = real<int(int, struct stat*)>("fstat");
  return next(file, found);
}

int stat(const char* path, struct stat* found) noexcept {
  if (hangs_now("stat")) hang_at(path);
  static auto* const next = real<int(const char*, struct stat*)>("stat");
  return next(path, found);
}

int fsync(int file) {
  hang("fsync", file);
  static auto* const next = real<int(int)>("fsync");
  return next(file);
}

ssize_t pwrite(int file, const void* data, size_t count, off_t offset) {
  hang("pwrite", file);
  static auto* const next = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return next(file, data, count, offset);
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  const bool creates = (flags & O_CREAT) != 0;
  const bool reads = (flags & O_ACCMODE) == O_RDONLY;
  const bool hangs =
      hangs_now("open") || (creates && hangs_now("create")) || (reads && hangs_now("read"));
  if (hangs) hang_at(path);
  static auto* const next = real<int(const char*, int, ...)>("open");
  return next(path, flags, mode);
}

ssize_t pwrite64(int file, const void* data, size_t count, off64_t offset) {
  return pwrite(file, data, count, offset);
}

}  // extern "C"
