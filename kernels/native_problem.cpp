#include "kernels/native_problem.hpp"

#include <omp.h>

#include <cstdlib>

#include "kernels/native/instruction_sets.hpp"

namespace swarmpi::kernels {

namespace {

std::uint64_t supported_sets() {
  std::uint64_t sets = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  std::uint64_t bit = 1;
  // NOLINTNEXTLINE(cppcoreguidelines-macro-usage): the builtin wants a literal
#define SWARMPI_ADD_SET(macro, name)             \
  if (__builtin_cpu_supports(name)) sets |= bit; \
  bit *= 2;
  SWARMPI_INSTRUCTION_SETS(SWARMPI_ADD_SET)
#endif
  return sets;
}

/// Threads that a parallel region gets when it asks for so many.
int threads_given(int asked) {
  int given = 0;
#pragma omp parallel num_threads(asked)
#pragma omp single
  given = omp_get_num_threads();
  return given;
}

}  // namespace

std::string missing_instruction_sets(std::uint64_t compiled, std::uint64_t supported) {
  std::string missing;
  std::uint64_t bit = 1;
#define SWARMPI_NAME_SET(macro, name)                             \
  if ((compiled & ~supported & bit) != 0)                         \
    missing += (missing.empty() ? "" : ", ") + std::string(name); \
  bit *= 2;
  SWARMPI_INSTRUCTION_SETS(SWARMPI_NAME_SET)
  return missing;
}

std::string native_problem(const BackendOptions& options) {
  const std::string missing = missing_instruction_sets(native::kCompiledSets, supported_sets());
  if (!missing.empty()) {
    return "this CPU lacks instruction sets that the native kernels were built for: " + missing +
           "; build with -DSWARMPI_ARCH of the oldest CPU, e.g. x86-64-v3";
  }
  omp_set_dynamic(0);
  const int given = threads_given(options.threads);
  if (given != options.threads) {
    const char* const limit = std::getenv("OMP_THREAD_LIMIT");
    return "threads = " + std::to_string(options.threads) + ", but OpenMP gives this process " +
           std::to_string(given) + ": " +
           (limit != nullptr ? "OMP_THREAD_LIMIT is " + std::string(limit)
                             : "look for OMP_THREAD_LIMIT and OMP_MAX_ACTIVE_LEVELS") +
           " in the environment; the number of threads decides the bits";
  }
  return "";
}

}  // namespace swarmpi::kernels
