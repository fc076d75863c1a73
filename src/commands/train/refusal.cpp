#include "commands/train/refusal.hpp"

#include <chrono>
#include <memory>
#include <thread>

#include "commands/train/handshake.hpp"

namespace swarmpi {

ExitStatus refuse_to_start(const Launcher& launcher, const Status& status, std::ostream& error) {
  const auto print = [&](const Status& common) {
    error << "swarmpi: " << common.message() << std::endl;
    return common.code();
  };
  if (launcher.ranks <= 1) return print(status);
  const Result<std::unique_ptr<MpiSession>> session = MpiSession::start();
  if (!session.ok()) return print(status);
  const Status common = all_agree(*session.value(), status);
  // Before MPI_Finalize: mpirun drops what a rank prints when others have left already.
  if (launcher.first()) print(common);
  (void)session.value()->finish();
  return status_of_rank(common.code(), launcher.first());
}

void await_turn_to_leave(int rank) {
  constexpr std::chrono::milliseconds kApart(20);
  constexpr int kTurns = 256;  // more are spread over several hosts, each with its own daemon
  std::this_thread::sleep_for(kApart * (rank % kTurns));
}

}  // namespace swarmpi
