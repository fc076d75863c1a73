#include "transport/mpi/info.hpp"

#include <array>
#include <string_view>

#include "transport/mpi/mpi.hpp"

namespace swarmpi {
namespace {

constexpr bool kFaultTolerance = SWARMPI_HAVE_ULFM != 0;

}  // namespace

MpiInfo mpi_info() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MpiInfo info;
  info.fault_tolerance = kFaultTolerance;
  if (MPI_Get_library_version(text.data(), &length) == MPI_SUCCESS) {
    const std::string_view whole(text.data(), static_cast<std::size_t>(length));
    const std::string_view line = whole.substr(0, whole.find('\n'));
    // Open MPI goes on with package, ident and repository: the name and the date are enough.
    info.library = line.substr(0, line.find(", package:"));
  } else {
    info.library = "unknown";
  }
  info.survives =
      kFaultTolerance
          ? "reports a lost rank at once (ULFM) under mpirun --with-ft ulfm; the run goes on"
          : "does not report lost ranks: mpirun or silence (swarm.suspect_after_s) ends the run, "
            "and --resume continues it from the last checkpoint";
  return info;
}

}  // namespace swarmpi
