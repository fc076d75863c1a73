#pragma once
// Rows of runs that compute nothing: what the protocol is given for losses is made up.

#include <limits>
#include <variant>

#include "core/records.hpp"

namespace swarmpi {

/// The row as it is stored and shown: nothing that could be taken for learning.
inline Record without_losses(Record row) {
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  if (auto* step = std::get_if<StepRow>(&row)) step->loss = step->grad_norm = kNothing;
  if (auto* validation = std::get_if<ValidationRow>(&row)) validation->loss = kNothing;
  return row;
}

}  // namespace swarmpi
