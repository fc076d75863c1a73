#include "transport/mpi/settings.hpp"

#include <cstdlib>

#include "transport/mpi/info.hpp"

namespace swarmpi {

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
  if (fault_tolerant) {
    // Other transports and coll/han do not get over lost ranks.
    settings.push_back({"OMPI_MCA_pml", "ob1"});
    settings.push_back({"OMPI_MCA_btl", "self,sm,tcp"});
    settings.push_back({"OMPI_MCA_coll", "basic,libnbc,tuned,inter,self,ftagree"});
  }
  return settings;
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
