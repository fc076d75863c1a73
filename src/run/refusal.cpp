#include "run/refusal.hpp"

#include <chrono>
#include <thread>

namespace swarmpi {

ExitStatus refuse_to_start(const Launcher& launcher, const Status& status, std::ostream& error) {
  if (launcher.rank == 0) error << "swarmpi: " << status.message() << std::endl;
  // mpirun passes output on in its own time, and forgets it when ranks leave too soon.
  if (!launcher.alone()) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  return status.code();
}

}  // namespace swarmpi
