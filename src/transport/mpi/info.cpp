#include "transport/mpi/info.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "transport/mpi/doorbell.hpp"
#include "transport/mpi/mpi.hpp"

namespace swarmpi {
namespace {

constexpr bool kFaultTolerance = SWARMPI_HAVE_ULFM != 0;

// Beside the library, as in virtual environments and prefixes of one's own; else under the name
// that Debian gives it.
std::string mpirun_of(std::string_view library) {
  namespace fs = std::filesystem;
  Dl_info where{};
  std::error_code error;
  // dladdr takes a function's address as that of data.
  if (dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &where) != 0 && where.dli_fname) {
    const fs::path beside = fs::path(where.dli_fname).parent_path().parent_path() / "bin/mpirun";
    if (beside != "/usr/bin/mpirun" && fs::exists(beside, error)) return beside.string();
  }
  std::string debian = library.starts_with("Open MPI") ? "mpirun.openmpi"
                       : library.starts_with("MPICH")  ? "mpirun.mpich"
                                                       : "";
  if (!debian.empty() && fs::exists("/usr/bin/" + debian, error)) return debian;
  return "the mpirun of that MPI";
}

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
    std::replace(info.library.begin(), info.library.end(), '\t', ' ');  // MPICH's
  } else {
    info.library = "unknown";
  }
  info.mpirun = mpirun_of(info.library);
  info.survives =
      kFaultTolerance
          ? "reports a lost rank at once (ULFM) under mpirun --with-ft ulfm; the run goes on"
          : "does not report lost ranks: mpirun or silence (swarm.suspect_after_s) ends the run, "
            "and --resume continues it from the last checkpoint";
  info.idle = Doorbell().descriptor() >= 0
                  ? "are woken by ranks of the same host"
                  : "are woken by nobody, as this system refuses the socket for it, or its filter "
                    "(SO_ATTACH_FILTER): they look for messages every 2 ms or sooner";
  return info;
}

}  // namespace swarmpi
