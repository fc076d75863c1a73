#pragma once
// Whether the native kernels can work in this process, asked before any of them runs.

#include <cstdint>
#include <string>

#include "kernels/backend.hpp"

namespace swarmpi::kernels {

/// Empty if they can, with the bits that these options stand for; else the reason and the remedy.
std::string native_problem(const BackendOptions& options);

/// The sets in `compiled` that are not in `supported`, by name: "avx2, fma". Bits as in
/// native/instruction_sets.hpp.
std::string missing_instruction_sets(std::uint64_t compiled, std::uint64_t supported);

}  // namespace swarmpi::kernels
