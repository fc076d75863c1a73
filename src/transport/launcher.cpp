#include "transport/launcher.hpp"

#include <algorithm>
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

}  // namespace

Launcher detect_launcher(const Environment& environment) {
  const auto rank_or_0 = [&](const char* name) { return number(environment, name).value_or(0); };

  const auto here_or = [&](const char* name, std::int64_t all) {
    return std::clamp<std::int64_t>(number(environment, name).value_or(all), 1, all);
  };

  if (const auto size = number(environment, "OMPI_COMM_WORLD_SIZE"); size && *size > 0) {
    return {"mpirun (Open MPI)", rank_or_0("OMPI_COMM_WORLD_RANK"), *size,
            here_or("OMPI_COMM_WORLD_LOCAL_SIZE", *size)};
  }
  const auto pmi_size = number(environment, "PMI_SIZE");
  if (pmi_size && *pmi_size > 0 && number(environment, "PMI_RANK")) {
    return {"PMI", rank_or_0("PMI_RANK"), *pmi_size, here_or("MPI_LOCALNRANKS", *pmi_size)};
  }
  if (number(environment, "SLURM_STEP_ID") && number(environment, "SLURM_PROCID")) {
    const auto size = number(environment, "SLURM_STEP_NUM_TASKS");
    if (size && *size > 0) {
      const std::int64_t nodes =
          std::max<std::int64_t>(number(environment, "SLURM_STEP_NUM_NODES").value_or(1), 1);
      return {"srun", rank_or_0("SLURM_PROCID"), *size, (*size + nodes - 1) / nodes};
    }
  }
  if (const auto rank = number(environment, "PMIX_RANK")) return {"PMIx", *rank, 0};
  return {};
}

Launcher detect_launcher() {
  return detect_launcher([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace swarmpi
