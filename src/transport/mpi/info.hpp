#pragma once
// What the MPI library we are linked with is and can survive, without starting it.

#include <string>

namespace swarmpi {

struct MpiInfo {
  std::string library;           ///< first line of MPI_Get_library_version
  bool fault_tolerance = false;  ///< compiled in: MPI reports lost ranks (ULFM)
  std::string mpirun;    ///< for people: the launcher that belongs to it, a path where known
  std::string survives;  ///< for people: what a run over this MPI survives
  std::string idle;      ///< for people: what wakes ranks that have nothing to do
};

/// Allowed before MPI_Init.
MpiInfo mpi_info();

}  // namespace swarmpi
