#include <fcntl.h>

#include <csignal>
#include <iostream>

#include "commands/dispatch.hpp"
#include "commands/standard_output.hpp"

namespace {

// Where a standard stream is closed, the next file opened would take its number, and messages would
// go into it.
void fill_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) == -1) open("/dev/null", O_RDWR);
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves must not end a run
  const swarmpi::ExitStatus status = swarmpi::run_command_line(
      {argv + 1, argv + argc}, swarmpi::detect_launcher(), std::cout, std::cerr);
  return static_cast<int>(swarmpi::close_standard_output(status));
}
