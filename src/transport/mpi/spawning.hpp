#pragma once
// Starts other processes of this program while MPI runs, and connects with them. What Open MPI does
// in one call of MPI_Comm_spawn is done in steps here, for a process may die or hang in any of
// them:
//
//   1. launch: mpirun starts the process on this host. It starts MPI alone in its world;
//   2. await: it says that it is up, by a name that it publishes (MPI_Publish_name);
//   3. connect: MPI_Comm_accept here, MPI_Comm_connect there, in a few milliseconds;
//   4. greet: it is sent its start-up data, answers, and is told whether it is taken.
//
// The two then share an intercommunicator of their own. It is never merged with others
// (MPI_Intercomm_merge): that is a collective operation, in which a death could hang the rest.

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/status.hpp"
#include "transport/mpi/call_watchdog.hpp"
#include "transport/mpi/mpi.hpp"
#include "transport/mpi/process.hpp"
#include "transport/mpi/start_answer.hpp"

namespace swarmpi {

struct StartedProcess {
  MPI_Comm comm = MPI_COMM_NULL;
  Process process;
};

/// Starts one process at a time, in a thread of its own that is left to itself where MPI hangs in
/// it. REQUIRES: MPI_THREAD_MULTIPLE.
class ProcessStarter {
 public:
  /// The other process gets `arguments`, and behind them what it connects with. `limit_s`: after so
  /// long a start is given up. `longest_hold_s`: what turn() makes its caller wait for a
  /// connection.
  ProcessStarter(std::vector<std::string> arguments, double limit_s, double longest_hold_s,
                 StartCheck check = {});
  ~ProcessStarter() { end(); }
  ProcessStarter(const ProcessStarter&) = delete;
  ProcessStarter& operator=(const ProcessStarter&) = delete;

  /// Whether a process can be started now: none is being started, and MPI hangs in no earlier
  /// connection. There Open MPI 5.0 holds up all later ones of this process for ten minutes.
  bool ready() const;
  /// REQUIRES: ready().
  void start(std::string start_info);
  /// The process that start() was for, or why there is none: once. Errors: failed.
  std::optional<Result<StartedProcess>> outcome();
  /// The last argument of the process that was started last; "" where none could be.
  const std::string& port() const;

  /// While it lives no process is being connected. Empty where one is: the caller must then not
  /// test requests, for Open MPI would have it wait for the other process in the place of our
  /// thread; to post sends is safe. That takes milliseconds, and eight round trips to mpirun; where
  /// it takes longer our thread waits by now, and the caller may go on.
  class Turn {
   public:
    explicit operator bool() const { return granted_; }

   private:
    friend class ProcessStarter;
    std::shared_ptr<const void> owner_;  // of the mutex
    std::unique_lock<std::mutex> lock_;
    bool granted_ = true;
  };
  Turn turn();
  /// Gives up the process that is being started, and waits for the thread. Returns whether it has
  /// ended: MPI_Finalize would hang where MPI hangs in it.
  bool end();

 private:
  struct Attempt;

  std::vector<std::string> arguments_;
  double limit_s_, longest_hold_s_;
  StartCheck check_;
  std::shared_ptr<Attempt> attempt_;  // the last; its thread has a share
  WallClock clock_;
  double begun_s_ = 0;
  double held_since_s_ = -1;  // -1: turn() was granted last
  bool answered_ = true;      // outcome() has told of it
  bool ended_ = false;        // end() has been called
};

/// In a process that ProcessStarter has started: its connection with the one that has done so.
/// Errors: failed.
Result<MPI_Comm> connect_to_starter(CallWatchdog& watchdog, const std::string& port,
                                    double limit_s);
/// The start-up data from the process that has started this one, once that has taken the answer.
/// Errors: failed. REQUIRES: `starter` is the communicator with it.
Result<std::string> receive_start_info(CallWatchdog& watchdog, MPI_Comm starter,
                                       const AnswerStart& answer);

/// Whether mpirun has started this process by order of a ProcessStarter. To be called before
/// MPI_Init, which otherwise waits for the connection that MPI_Comm_spawn makes.
bool was_launched_alone();

}  // namespace swarmpi
