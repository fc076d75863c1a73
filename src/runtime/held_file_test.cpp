#include "runtime/held_file_test.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdarg>
#include <fstream>
#include <mutex>

namespace swarmpi {
namespace {

std::mutex held_mutex;
std::condition_variable held_released;
std::string held_path;

void wait_while_held(const char* path) {
  std::unique_lock lock(held_mutex);
  held_released.wait(lock, [path] { return held_path.empty() || held_path != path; });
}

}  // namespace

HeldFile::HeldFile(const std::string& path) {
  std::ofstream(path).close();
  const std::scoped_lock lock(held_mutex);
  held_path = path;
}

void HeldFile::release() {
  const std::scoped_lock lock(held_mutex);
  held_path.clear();
  held_released.notify_all();
}

}  // namespace swarmpi

// The open() of this program. The name of its own keeps headers from knowing it as an inline one.
extern "C" int open_unless_held(const char* path, int flags, ...) __asm__("open");
extern "C" int open_unless_held(const char* path, int flags, ...) {
  swarmpi::wait_while_held(path);
  va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0;
  va_end(arguments);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
