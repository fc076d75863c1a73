#pragma once
// Settings of the MPI library with which it was found to survive the loss of ranks. They are put
// into the environment before MPI starts, for the libraries that know them.

#include <string>
#include <string_view>
#include <vector>

#include "transport/launcher.hpp"

namespace swarmpi {

struct MpiSetting {
  std::string name;  ///< an environment variable
  std::string value;
};

/// Those for the library `library` (MPI_Get_library_version); none for one that is not known to
/// take them: an unknown component in a list would end MPI_Init. `fault_tolerant`: mpirun was told
/// --with-ft ulfm. Without it the choice of network components is left to MPI.
std::vector<MpiSetting> mpi_settings(std::string_view library, bool fault_tolerant);

/// One sentence that names the variables by which a user or a site has chosen other transports than
/// mpi_settings() does, with their values; "" where none has. MPI itself names no variable when it
/// fails with them.
std::string other_transports(std::string_view library, bool fault_tolerant,
                             const Environment& environment);
/// The same for this process, before MPI_Init.
std::string other_transports();

/// Puts them into the environment, where they are not set already. Before MPI_Init.
void apply_mpi_settings();

/// Whether mpirun was told --with-ft ulfm (Open MPI 5).
bool launched_fault_tolerant();

}  // namespace swarmpi
