#pragma once
// The processes of a run from start to end, over MPI where there are several: one session in a
// process.

#include <memory>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "transport/mpi/start_answer.hpp"

namespace swarmpi {

class MpiSession {
 public:
  /// Starts MPI on the calling thread, the only one that may use it from then on. The threads that
  /// MPI makes take no INT, USR1, USR2 and XCPU: they are left to this program's own.
  /// All ranks must call this: where one exits before, the others wait for `start_limit_s` and die.
  /// So mistakes in the input must be found either by all ranks before, or after the start. The
  /// limit is half an hour because hosts that load programs and data from one busy disk are slow;
  /// where a rank dies on its way here, mpirun ends the others.
  /// `starts_processes`: transports of this session may start others, which takes threads that use
  /// MPI as well (MPI_THREAD_MULTIPLE).
  static Result<std::unique_ptr<MpiSession>> start(bool starts_processes = false,
                                                   double start_limit_s = kStartLimitS);
  /// The same in a process that another of the run has started, which waits for it at `port`.
  /// Where the two cannot be connected this process says so and leave()s: MPI_Finalize might hang.
  /// Errors: bad_input, where none has started it; failed.
  static Result<std::unique_ptr<MpiSession>> join(const std::string& port);
  /// Of a process alone: one rank on one host, which does not touch MPI and has no MpiTransport.
  static std::unique_ptr<MpiSession> of_one();
  /// Ends MPI if finish() was not called.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  bool alone() const { return !handles_; }
  int rank() const;
  int ranks() const;
  /// How many share this rank's memory, itself included.
  int ranks_on_host() const;
  /// This rank's number among them.
  int rank_on_host() const;
  /// Whether a transport has found a rank lost.
  bool lost_a_rank() const;
  /// Whether a rank that dies is reported to the others: ULFM is compiled in and mpirun was told
  /// --with-ft ulfm. Without it the run ends, or hangs, when a rank is lost.
  bool reports_lost_ranks() const;

  /// Whether another process of the run has started this one, see join(): then it shares a
  /// communicator only with that one.
  bool spawned() const;
  /// The start-up data from that process, once that has taken the answer. Errors: failed, saying
  /// why it has not. REQUIRES: spawned(); once.
  Result<std::string> receive_start_info(const AnswerStart& answer = {});

  /// The texts of all ranks, by rank (MPI_Allgatherv). All must call it, before any transport has
  /// started: it waits for all of them.
  std::vector<std::string> gather(const std::string& mine);

  /// MPI_Finalize. REQUIRES: no transport is left. With ULFM it waits for all ranks, which may be
  /// busy for a while with what they have to write. After a rank was lost it hangs now and then;
  /// then the process reports that and dies by SIGKILL after 5 s (30 s where no rank is known to be
  /// lost): what it did is durable by then, and the others must notice its end (an exit without
  /// finalizing is not noticed and hangs them). Where MPI hangs in another thread already, the
  /// process leave()s. mpirun returns the status of the ranks that did
  /// exit, so after a loss all must exit with the same.
  Status finish();
  /// For a rank that ends while the others go on: dies by SIGTERM, which they notice at once.
  /// MPI_Finalize would wait for them.
  [[noreturn]] static void leave();

  struct Handles;
  /// For the sources of transport/mpi.
  Handles& handles() { return *handles_; }

 private:
  static constexpr double kStartLimitS = 1800;

  explicit MpiSession(std::unique_ptr<Handles> handles);

  std::unique_ptr<Handles> handles_;  // null: alone
};

}  // namespace swarmpi
