#include "io/library_calls_test.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

namespace swarmpi {

std::function<void(const char* call)> before_file_call;

namespace {
void note(const char* call) {
  if (before_file_call) before_file_call(call);
}
}  // namespace

}  // namespace swarmpi

extern "C" int unlink(const char* path) noexcept {
  swarmpi::note("unlink");
  return ::unlinkat(AT_FDCWD, path, 0);
}
extern "C" int link(const char* from, const char* to) noexcept {
  swarmpi::note("link");
  return ::linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}
extern "C" int rename(const char* from, const char* to) noexcept {
  swarmpi::note("rename");
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}
extern "C" int fsync(int file) {
  swarmpi::note("fsync");
  return static_cast<int>(::syscall(SYS_fsync, file));
}
