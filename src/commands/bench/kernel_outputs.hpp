#pragma once
// What a kernel made, in whatever form, and how far two kernels' results are apart.

#include <cstdint>
#include <variant>
#include <vector>

#include "kernels/backend.hpp"

namespace swarmpi {

/// Numbers that an operation made.
struct Integers {
  const std::int64_t* data = nullptr;
  std::int64_t count = 0;
};
using Output = std::variant<kernels::ConstFactor, const double*, Integers>;

/// Largest |a - b| / max |b| over the outputs, each held against its own maximum; infinite where
/// one is not finite or integers differ.
double relative_error(const std::vector<Output>& a, const std::vector<Output>& b);

}  // namespace swarmpi
