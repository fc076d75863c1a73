#include "kernels/native/instruction_sets.hpp"

namespace swarmpi::kernels::native {

namespace {

/// A macro's text: "1" where the compiler defines it, its own name where not.
#define SWARMPI_TEXT(macro) #macro
#define SWARMPI_IS_SET(macro, name) (SWARMPI_TEXT(macro))[0] == '1',

constexpr bool kIsSet[] = {SWARMPI_INSTRUCTION_SETS(SWARMPI_IS_SET)};

constexpr std::uint64_t bits() {
  std::uint64_t bits = 0;
  std::uint64_t bit = 1;
  for (const bool is_set : kIsSet) {
    if (is_set) bits |= bit;
    bit *= 2;
  }
  return bits;
}

}  // namespace

constinit const std::uint64_t kCompiledSets = bits();

}  // namespace swarmpi::kernels::native
