#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "commands/dispatch.hpp"

namespace {

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
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves must not end a run
  const swarmpi::ExitStatus status = swarmpi::run_command_line(
      {argv + 1, argv + argc}, swarmpi::detect_launcher(), std::cout, std::cerr);
  return static_cast<int>(close_standard_output(status));
}
