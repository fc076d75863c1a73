#include "transport/launcher.hpp"

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

  if (const auto size = number(environment, "OMPI_COMM_WORLD_SIZE"))
    return {"mpirun (Open MPI)", rank_or_0("OMPI_COMM_WORLD_RANK"), *size};
  if (const auto size = number(environment, "PMI_SIZE"); size && number(environment, "PMI_RANK"))
    return {"PMI", rank_or_0("PMI_RANK"), *size};
  if (number(environment, "SLURM_STEP_ID") && number(environment, "SLURM_PROCID")) {
    if (const auto size = number(environment, "SLURM_STEP_NUM_TASKS"))
      return {"srun", rank_or_0("SLURM_PROCID"), *size};
  }
  if (const auto rank = number(environment, "PMIX_RANK")) return {"PMIx", *rank, 0};
  return {};
}

Launcher detect_launcher() {
  return detect_launcher([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace swarmpi
