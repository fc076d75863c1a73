#include "transport/launcher.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
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

struct Counter {
  const char* size;
  const char* rank;
  const char* launcher;
};
constexpr Counter kCounters[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun (Open MPI)"},
    {"PMI_SIZE", "PMI_RANK", "PMI"},
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "mpirun (MVAPICH2)"},
    {"JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", "jsrun"},
};
constexpr Counter kStep{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"};
constexpr std::int64_t kShellOfSalloc = 4294967290;  // as a step

// With ranks == 0 where it does not count: its variables are not set, or make no sense.
Launcher counted_by(const Environment& environment, const Counter& counter) {
  const auto size = number(environment, counter.size), rank = number(environment, counter.rank);
  if (!size || !rank) return {"", 0, 0};
  return {counter.launcher, *rank, *size, Launcher::Reach::none, counter.size};
}

bool is_shell_of_slurm(const Environment& environment, std::int64_t step, bool in_a_shell) {
  if (environment("PMIX_RANK") != nullptr) return false;
  return step == kShellOfSalloc || (in_a_shell && environment("SLURM_PTY_PORT") != nullptr);
}

// By the variables that count ranks.
Launcher counted_launcher(const Environment& environment, bool in_a_shell) {
  for (const Counter& counter : kCounters) {
    if (Launcher found = counted_by(environment, counter); found.ranks > 0) return found;
  }
  const auto step = number(environment, "SLURM_STEP_ID");
  if (step && !is_shell_of_slurm(environment, *step, in_a_shell)) {
    if (Launcher found = counted_by(environment, kStep); found.ranks > 0) return found;
  }
  if (const auto rank = number(environment, "PMIX_RANK")) return {"PMIx", *rank, 0};
  return {};
}

// The leading number; 0 if there is none.
std::int64_t major_version(const char* text) {
  std::int64_t value = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), value);
  return value;
}

// srun --mpi=pmi2 and PMIx servers set their variables beside those of a step. OMPI_VERSION may be
// that of a container's image.
Launcher::Reach reach_of(const Environment& environment, const std::string& launcher) {
  const auto has = [&](const char* name) { return environment(name) != nullptr; };
  if (has("OMPI_COMM_WORLD_SIZE")) {
    if (has("OMPI_MCA_orte_launch")) return Launcher::Reach::open_mpi_4;
    if (major_version(environment("OMPI_VERSION")) >= 5) return Launcher::Reach::open_mpi_5;
  }
  if (has("PMIX_RANK") && has("PMIX_NAMESPACE")) return Launcher::Reach::pmix;
  if (has("PMI_RANK") && (has("PMI_FD") || has("PMI_PORT")))
    return has("SLURM_STEP_ID") ? Launcher::Reach::slurm_pmi2 : Launcher::Reach::pmi;
  if (launcher == kStep.launcher && has("SLURM_SRUN_COMM_PORT")) return Launcher::Reach::slurm;
  return Launcher::Reach::none;
}

// What has started ranks that can be reached so.
const char* describe(Launcher::Reach reach) {
  switch (reach) {
    case Launcher::Reach::none:
      break;
    case Launcher::Reach::slurm:
      return "by srun with neither PMIx nor PMI-2 (--mpi)";
    case Launcher::Reach::slurm_pmi2:
      return "over PMI, as by srun --mpi=pmi2";
    case Launcher::Reach::pmi:
      return "over PMI, as by mpiexec of MPICH or Intel MPI";
    case Launcher::Reach::pmix:
      return "over PMIx, as by mpirun of Open MPI, or srun --mpi=pmix";
    case Launcher::Reach::open_mpi_5:
      return "by mpirun of Open MPI 5";
    case Launcher::Reach::open_mpi_4:
      return "by mpirun of Open MPI 4";
  }
  return "";
}

// Of what was tried: Open MPI 5 knows PMIx alone, and the two mpirun of Open MPI do not start each
// other's programs. Open MPI 4 speaks PMI with Slurm alone: under MPICH's mpiexec each rank takes
// itself for the only one, or aborts as they all make the same folder at once. An MPICH may have
// been built with PMIx instead of PMI: it may try, but not under an mpirun of Open MPI. Both may
// have been built with Slurm's PMI.
bool starts_under(std::string_view library, Launcher::Reach reach) {
  using Reach = Launcher::Reach;
  const bool by_slurm = reach == Reach::slurm || reach == Reach::slurm_pmi2;
  if (library.starts_with("Open MPI v5."))
    return reach == Reach::pmix || reach == Reach::open_mpi_5;
  if (library.starts_with("Open MPI v4."))
    return reach == Reach::pmix || reach == Reach::open_mpi_4 || by_slurm;
  if (library.starts_with("MPICH")) return reach == Reach::pmix || reach == Reach::pmi || by_slurm;
  return true;
}

// A shell leads the session that it starts programs in; a task that srun --pty has started leads
// its own.
bool started_from_a_terminal() {
  const int terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (terminal < 0) return false;
  close(terminal);
  return getsid(0) != getpid();
}

}  // namespace

Launcher detect_launcher(const Environment& environment, bool in_a_shell) {
  Launcher launcher = counted_launcher(environment, in_a_shell);
  launcher.reach = reach_of(environment, launcher.name);
  return launcher;
}

Launcher detect_launcher() {
  return detect_launcher([](const char* name) -> const char* { return std::getenv(name); },
                         started_from_a_terminal());
}

Status check_launcher(const Launcher& launcher, std::string_view library, std::string_view mpirun) {
  if (launcher.alone() || starts_under(library, launcher.reach)) return {};
  if (launcher.reach != Launcher::Reach::none) {
    return Status::bad_input(
        fmt::format("{} ranks were started {}. This program was built with {}, which that cannot "
                    "start: use {}",
                    launcher.ranks, describe(launcher.reach), library, mpirun));
  }
  return Status::bad_input(fmt::format(
      "{} in the environment says that there are {} ranks, but there is nothing by which MPI could "
      "reach a launcher: something else has left the variable, or srun was given another --mpi. "
      "This program was built with {}: use {}, or unset the variable for a process that is alone",
      launcher.counted_by, launcher.ranks, library, mpirun));
}

}  // namespace swarmpi
