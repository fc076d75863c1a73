#pragma once
// Which launcher started this process, and how many ranks, by the environment alone: MPI is not
// used to find out.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/status.hpp"

namespace swarmpi {

struct Launcher {
  /// How MPI in a rank can reach its launcher. An MPI that cannot aborts in MPI_Init, waits there
  /// for ever, or takes itself for a process that is alone.
  enum class Reach : std::uint8_t {
    none,        ///< the variables are there, but nothing to talk to
    slurm,       ///< plain srun: an MPI that was built with Slurm's own PMI finds it, and no other
    slurm_pmi2,  ///< srun --mpi=pmi2
    pmi,         ///< MPICH's and Intel MPI's mpiexec
    pmix,        ///< Open MPI's mpirun, srun --mpi=pmix
    open_mpi_5,  ///< mpirun of Open MPI 5, which says its version
    open_mpi_4,  ///< mpirun of Open MPI 4
  };

  std::string name;  ///< "mpirun (Open MPI)", "PMI", "PMIx", "srun", ...; "" where there is none
  std::int64_t rank = 0;
  std::int64_t ranks = 1;  ///< 0: a launcher is there but does not say how many it started
  Reach reach = Reach::none;
  std::string counted_by = {};  ///< the variable that says how many ranks there are

  bool alone() const { return ranks == 1; }
  /// Whether this is the rank that reports for all.
  bool first() const { return rank == 0; }
  /// Whether this rank says what all find alike before MPI starts. PMI's variables without a
  /// launcher behind them were left by something else, perhaps to this process alone: whatever its
  /// number, it must not end without a word.
  bool speaks() const { return first() || (reach == Reach::none && counted_by == "PMI_SIZE"); }
};

/// Looks up one variable of the environment; null where it is not set.
using Environment = std::function<const char*(const char*)>;

/// In this order: Open MPI's mpirun (OMPI_COMM_WORLD_SIZE and _RANK), PMI of MPICH, Intel MPI and
/// srun (PMI_SIZE, PMI_RANK), MVAPICH2's (MV2_COMM_WORLD_SIZE, _RANK) and IBM's jsrun
/// (JSM_NAMESPACE_SIZE, _RANK), a Slurm step (SLURM_STEP_ID, SLURM_STEP_NUM_TASKS, SLURM_PROCID),
/// any other PMIx server (PMIX_RANK). SLURM_NTASKS is never read: within sbatch and salloc it tells
/// the size of the allocation to a process that is alone. Only a step counts its own tasks, and not
/// one whose task is a shell for a person: that of salloc, and of srun --pty, whose variable the
/// tasks of a second srun inherit. So there `in_a_shell` matters, which says whether a shell on a
/// terminal has started this process.
Launcher detect_launcher(const Environment& environment, bool in_a_shell);
/// The same for this process and its environment.
Launcher detect_launcher();

/// Whether an MPI library (MPI_Get_library_version) can be started under this launcher. `mpirun`
/// is what its own is called. To be asked before MPI_Init. An MPI of which nothing is known may
/// try. Errors: bad_input, naming both and what to use.
Status check_launcher(const Launcher& launcher, std::string_view library, std::string_view mpirun);

}  // namespace swarmpi
