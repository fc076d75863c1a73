#include "transport/launcher.hpp"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace swarmpi {
namespace {

std::optional<std::int64_t> number(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size() || value < 0) return std::nullopt;
  return value;
}

// By the variables that count ranks.
Launcher counted_launcher(const Environment& environment) {
  const auto rank_or_0 = [&](const char* name) { return number(environment, name).value_or(0); };

  if (const auto size = number(environment, "OMPI_COMM_WORLD_SIZE"))
    return {"mpirun (Open MPI)", rank_or_0("OMPI_COMM_WORLD_RANK"), *size, Launcher::Reach::none};
  if (const auto size = number(environment, "PMI_SIZE"); size && number(environment, "PMI_RANK"))
    return {"PMI", rank_or_0("PMI_RANK"), *size, Launcher::Reach::none};
  if (number(environment, "SLURM_STEP_ID") && number(environment, "SLURM_PROCID")) {
    if (const auto size = number(environment, "SLURM_STEP_NUM_TASKS"))
      return {"srun", rank_or_0("SLURM_PROCID"), *size, Launcher::Reach::none};
  }
  if (const auto rank = number(environment, "PMIX_RANK"))
    return {"PMIx", *rank, 0, Launcher::Reach::none};
  return {};
}

// srun --mpi=pmi2 and PMIx servers set their variables beside those of a step.
Launcher::Reach reach_of(const Environment& environment) {
  const auto has = [&](const char* name) { return environment(name) != nullptr; };
  if (has("OMPI_COMM_WORLD_SIZE") && has("OMPI_VERSION")) return Launcher::Reach::open_mpi_5;
  if (has("OMPI_COMM_WORLD_SIZE") && has("OMPI_MCA_orte_launch"))
    return Launcher::Reach::open_mpi_4;
  if (has("PMIX_RANK") && has("PMIX_NAMESPACE")) return Launcher::Reach::pmix;
  if (has("PMI_RANK") && (has("PMI_FD") || has("PMI_PORT"))) return Launcher::Reach::pmi;
  return Launcher::Reach::none;
}

const char* describe(Launcher::Reach reach) {
  switch (reach) {
    case Launcher::Reach::none:
      return "with no way for MPI to reach it (as by srun with another --mpi)";
    case Launcher::Reach::pmi:
      return "as by mpiexec of MPICH or Intel MPI, or srun --mpi=pmi2";
    case Launcher::Reach::pmix:
      return "which speaks PMIx";
    case Launcher::Reach::open_mpi_5:
      return "that of Open MPI 5";
    case Launcher::Reach::open_mpi_4:
      return "that of Open MPI 4";
  }
  return "";
}

// Of what was tried: Open MPI 5 knows PMIx alone, and the two mpirun of Open MPI do not start each
// other's programs. An MPICH may have been built with PMIx instead of PMI: it may try, but not
// under an mpirun of Open MPI.
bool starts_under(std::string_view library, Launcher::Reach reach) {
  using Reach = Launcher::Reach;
  if (library.starts_with("Open MPI v5."))
    return reach == Reach::pmix || reach == Reach::open_mpi_5;
  if (library.starts_with("Open MPI v4."))
    return reach != Reach::none && reach != Reach::open_mpi_5;
  if (library.starts_with("MPICH")) return reach == Reach::pmi || reach == Reach::pmix;
  return true;
}

}  // namespace

Launcher detect_launcher(const Environment& environment) {
  Launcher launcher = counted_launcher(environment);
  launcher.reach = reach_of(environment);
  return launcher;
}

Launcher detect_launcher() {
  return detect_launcher([](const char* name) -> const char* { return std::getenv(name); });
}

Status check_launcher(const Launcher& launcher, std::string_view library, std::string_view mpirun) {
  if (launcher.alone() || starts_under(library, launcher.reach)) return {};
  return Status::bad_input(
      fmt::format("{} ranks were started by {}, {}. This program was built with {}, which cannot "
                  "start so: use {}",
                  launcher.ranks, launcher.name, describe(launcher.reach), library, mpirun));
}

}  // namespace swarmpi
