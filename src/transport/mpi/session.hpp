#pragma once
// MPI from start to end: one per process.

#include <memory>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

class MpiSession {
 public:
  /// Starts MPI on the calling thread, the only one that may use it from then on. The threads that
  /// MPI makes take no INT, USR1 and USR2: they are left to this program's own.
  /// All ranks must call this: one that exits before leaves the others waiting, until after
  /// `start_limit_s` each dies. So mistakes in the input are found after the start, by all, or by
  /// all before. Half an hour: hosts that load programs and data from one busy disk are slow, and
  /// mpirun ends the others when one dies on its way here.
  static Result<std::unique_ptr<MpiSession>> start(double start_limit_s = 1800);
  /// Ends MPI if finish() was not called.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const;
  int ranks() const;
  /// How many share this rank's memory, itself included.
  int ranks_on_host() const;
  /// Whether a transport has found a rank lost.
  bool lost_a_rank() const;
  /// Whether a rank that dies is reported to the others: ULFM is compiled in and mpirun was told
  /// --with-ft ulfm. Without it the run ends, or hangs, when a rank is lost.
  bool reports_lost_ranks() const;

  /// Whether another process of the run has started this one: it is in no communicator with others.
  bool spawned() const;
  /// What that process tells it. REQUIRES: spawned(); once.
  Result<std::string> hear_hello();

  /// What every rank says, by rank. All must call it, before any transport has started: it waits
  /// for all of them.
  std::vector<std::string> gather(const std::string& mine);

  /// MPI_Finalize. No transport may be left. With ULFM it waits for all ranks, which may be busy
  /// for a while with what they have to write. It hangs now and then after a rank was lost; then
  /// the process says so and dies by SIGKILL after 5 s (30 s where no rank is known to be lost):
  /// what it did is durable by then, and others must see it go (an exit without finalizing is not
  /// noticed and hangs them). mpirun returns the status of ranks that did exit: after a loss, let
  /// all leave with it.
  Status finish();
  /// For a rank that goes while the others go on: dies by SIGTERM, which those notice at once, for
  /// MPI_Finalize would wait for them.
  [[noreturn]] static void leave();

  struct Handles;
  /// For the sources of this folder.
  Handles& handles() { return *handles_; }

 private:
  explicit MpiSession(std::unique_ptr<Handles> handles);

  std::unique_ptr<Handles> handles_;
};

}  // namespace swarmpi
