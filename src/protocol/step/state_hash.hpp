#pragma once
// The hashes of a stage's state.

#include <cstdint>
#include <vector>

#include "core/field_list.hpp"

namespace swarmpi {

/// The state of a stage, as one replica has it: hashes in tensor order.
struct StateHash {
  /// Of weights and moments; where each replica owns a range, of that range: those of all replicas
  /// add up to what one that has all would say.
  std::vector<std::uint64_t> tensors;
  /// Of all weights, where each replica owns a range: all have the same. Else empty.
  std::vector<std::uint64_t> weights = {};

  bool operator==(const StateHash&) const = default;
};
SWARMPI_FIELDS(StateHash, tensors, weights);

}  // namespace swarmpi
