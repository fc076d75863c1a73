#include <csignal>
#include <iostream>

#include "run/commands.hpp"
#include "run/standard_output.hpp"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves must not end a run
  const swarmpi::ExitStatus status = swarmpi::run_command_line(
      {argv + 1, argv + argc}, swarmpi::detect_launcher(), std::cout, std::cerr);
  return static_cast<int>(swarmpi::close_standard_output(status));
}
