#pragma once
// What peers compare of a reduced gradient.

#include <cstdint>
#include <vector>

#include "core/field_list.hpp"

namespace swarmpi {

/// What a peer holds of a stage's reduced gradient, to be compared with what the others hold.
struct GradientFacts {
  std::vector<double> squares;  // one a tensor of the stage; empty where skipped
  std::uint64_t hash = 0;       // over all chunks; 0: it had nobody to pass it on to
  /// Of each chunk, where the stage is not reduced for the first time: they tell which one differs.
  std::vector<std::uint64_t> chunk_hashes;

  bool operator==(const GradientFacts&) const = default;
};
SWARMPI_FIELDS(GradientFacts, squares, hash, chunk_hashes);

}  // namespace swarmpi
