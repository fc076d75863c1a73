#include "transport/mpi/settings.hpp"

#include <cstdlib>
#include <iterator>

#include <fmt/core.h>

#include "transport/mpi/info.hpp"

namespace swarmpi {
namespace {

// Other transports and coll/han do not get over lost ranks.
const MpiSetting kTransports[] = {
    {"OMPI_MCA_pml", "ob1"},
    {"OMPI_MCA_btl", "self,sm,tcp"},
    {"OMPI_MCA_coll", "basic,libnbc,tuned,inter,self,ftagree"},
};

}  // namespace

std::vector<MpiSetting> mpi_settings(std::string_view library, bool fault_tolerant) {
  if (!library.starts_with("Open MPI v5.")) return {};
  std::vector<MpiSetting> settings{
      // With IPv6, two ranks of one host take each other for ranks of different hosts.
      {"OMPI_MCA_btl_tcp_disable_family", "6"},
      // All our fragments are below tcp's eager limit: a rendezvous that is under way when a rank
      // dies may end other ranks, or hang them.
      {"OMPI_MCA_btl_tcp_eager_limit", "131072"},
      {"OMPI_MCA_btl_tcp_rndv_eager_limit", "131072"},
      {"OMPI_MCA_btl_tcp_max_send_size", "131072"},
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
      // No barrier of the launcher in MPI_Finalize, where a death would hang the others; ULFM's own
      // agreement remains.
      {"OMPI_MCA_async_mpi_finalize", "1"},
      // mpirun's own settings (PRRTE), for where MPI_Comm_spawn starts an mpirun.
      {"PRTE_MCA_state_base_recoverable", "1"},
      {"PRTE_MCA_state_base_notify_errors", "1"},
  };
  if (fault_tolerant)
    settings.insert(settings.end(), std::begin(kTransports), std::end(kTransports));
  return settings;
}

std::string other_transports(std::string_view library, bool fault_tolerant,
                             const Environment& environment) {
  if (!library.starts_with("Open MPI v5.") || !fault_tolerant) return "";
  std::string theirs;
  std::string ours;
  for (const MpiSetting& setting : kTransports) {
    const char* const value = environment(setting.name.c_str());
    if (value == nullptr || value == setting.value) continue;
    const char* const comma = theirs.empty() ? "" : ", ";
    theirs += fmt::format("{}{}={}", comma, setting.name, value);
    ours += fmt::format("{}{}={}", comma, setting.name, setting.value);
  }
  if (theirs.empty()) return "";
  return fmt::format(
      "{} (set in the environment or by --mca of mpirun): under --with-ft ulfm only {} is known to "
      "start and to survive lost ranks; unset it if MPI fails",
      theirs, ours);
}

std::string other_transports() {
  return other_transports(mpi_info().library, launched_fault_tolerant(),
                          [](const char* name) { return std::getenv(name); });
}

bool launched_fault_tolerant() {
  const char* asked = std::getenv("OMPI_MCA_mpi_ft_enable");
  const std::string_view text = asked == nullptr ? "" : asked;
  return mpi_info().fault_tolerance && (text == "1" || text == "true");
}

void apply_mpi_settings() {
  for (const MpiSetting& setting : mpi_settings(mpi_info().library, launched_fault_tolerant())) {
    setenv(setting.name.c_str(), setting.value.c_str(), 0);
  }
}

}  // namespace swarmpi
