#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>

#include "commands/dispatch.hpp"
#include "core/uncaught.hpp"

namespace {

// Variables by which job scripts have OpenMP bind threads to the first CPUs of a host: those of all
// its ranks to the same.
constexpr const char* kBindings[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY",
                                     "KMP_AFFINITY"};

bool binds_threads(const char* variable) {
  for (const char* name : kBindings) {
    const char* at = variable;
    while (*name != '\0' && *at == *name) ++at, ++name;
    if (*name == '\0' && *at == '=') return true;
  }
  return false;
}

// Removes them, so that a rank keeps the CPUs that its launcher gave it. OpenMP's library reads
// them, and binds this thread, before main() and all constructors: only what is in .preinit_array
// comes before. Calls nothing, for no library is ready.
void forget_bindings(int /*argc*/, char** /*argv*/, char** environment) {
  char** kept = environment;
  for (char** at = environment; *at != nullptr; ++at) {
    if (!binds_threads(*at)) *kept++ = *at;
  }
  *kept = nullptr;
}

using Initializer = void (*)(int, char**, char**);
[[gnu::section(".preinit_array"), gnu::used]] const Initializer kBeforeLibraries = forget_bindings;

// Where a standard stream is closed, the next file opened would take its number, and messages would
// go into it.
void fill_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) == -1) open("/dev/null", O_RDWR);
  }
}

// A pipe or socket whose other end is closed.
bool reader_is_gone() {
  pollfd descriptor{STDOUT_FILENO, POLLOUT, 0};
  return poll(&descriptor, 1, 0) == 1 && (descriptor.revents & (POLLERR | POLLHUP)) != 0;
}

// Flushes stdout. What could not be written (no room) turns good into bad_input, with a message; a
// reader that had enough (`| head`) is no error.
swarmpi::ExitStatus close_standard_output(swarmpi::ExitStatus status) {
  std::cout.flush();
  if (std::cout.good() || reader_is_gone() || status != swarmpi::ExitStatus::good) return status;
  std::cerr << "swarmpi: standard output could not be written\n";
  return swarmpi::ExitStatus::bad_input;
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  swarmpi::name_uncaught_exceptions();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves must not end a run
  // HDF5 takes no locks: some file systems refuse them. The variable of a site would count more.
  setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
  const swarmpi::ExitStatus status = swarmpi::run_command_line(
      {argv + 1, argv + argc}, swarmpi::detect_launcher(), std::cout, std::cerr);
  return static_cast<int>(close_standard_output(status));
}
