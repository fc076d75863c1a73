#pragma once
// MPI itself, for the sources of transport/mpi. Headers that other folders include name no MPI
// type.

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

#include "core/status.hpp"

namespace swarmpi {

/// The tags of MPI messages: all that is sent from one endpoint to another, in order,
inline constexpr int kStreamTag = 1;
/// but for what overtakes it;
inline constexpr int kBeatTag = 4;
/// control messages (a receive on this tag also ends, with an error, when the other process dies),
inline constexpr int kControlTag = 2;
/// and what a process and the one that has started it tell each other first.
inline constexpr int kStartInfoTag = 3;

/// MPI's text for an error code.
std::string mpi_error_text(int code);
/// The failure of an MPI call that returned `code`.
Status failed_call(const char* call, int code);
/// Whether an error code says that the other process has died. Never, without ULFM.
bool reports_lost_rank(int code);

}  // namespace swarmpi
