#include "commands/standard_output.hpp"

#include <poll.h>
#include <unistd.h>

#include <iostream>

namespace swarmpi {
namespace {

// A pipe or socket whose other end is closed.
bool reader_is_gone() {
  pollfd descriptor{STDOUT_FILENO, POLLOUT, 0};
  return poll(&descriptor, 1, 0) == 1 && (descriptor.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

ExitStatus close_standard_output(ExitStatus status) {
  std::cout.flush();
  if (std::cout.good() || reader_is_gone() || status != ExitStatus::good) return status;
  std::cerr << "swarmpi: standard output could not be written\n";
  return ExitStatus::bad_input;
}

}  // namespace swarmpi
