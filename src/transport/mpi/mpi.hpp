#pragma once
// MPI itself, for the sources of this folder. Headers that others include name no type of it.

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>  // defines OMPI_HAVE_MPI_EXT_FTMPI
#endif

#if defined(OMPI_HAVE_MPI_EXT_FTMPI)
#define SWARMPI_HAVE_ULFM OMPI_HAVE_MPI_EXT_FTMPI
#else
#define SWARMPI_HAVE_ULFM 0
#endif

#include <string>

namespace swarmpi {

/// MPI's own words for an error code.
std::string mpi_error_text(int code);
/// Whether an error code says that the other process is gone. Never, without ULFM.
bool tells_of_a_lost_rank(int code);

}  // namespace swarmpi
