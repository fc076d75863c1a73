#include "commands/train/refusal.hpp"

#include <chrono>
#include <memory>
#include <thread>

#include "commands/train/handshake.hpp"

namespace swarmpi {

ExitStatus refuse_to_start(const Launcher& launcher, const Status& status, std::ostream& error) {
  const auto say = [&](const Status& told) {
    error << "swarmpi: " << told.message() << std::endl;
    return told.code();
  };
  if (launcher.ranks <= 1) return say(status);
  const Result<std::unique_ptr<MpiSession>> session = MpiSession::start();
  if (!session.ok()) return say(status);
  const Status told = all_agree(*session.value(), status);
  // Before MPI ends: mpirun drops what a rank says when others have left already.
  if (launcher.first()) say(told);
  (void)session.value()->finish();
  return status_of_rank(told.code(), launcher.first());
}

void await_turn_to_leave(int rank) {
  constexpr std::chrono::milliseconds kApart(20);
  constexpr int kPlaces = 256;  // more are spread over several hosts, each with its own daemon
  std::this_thread::sleep_for(kApart * (rank % kPlaces));
}

}  // namespace swarmpi
