#pragma once
// Rule 5 of order-free sums: the exponents of a coming step from what a step has measured.

#include "core/records.hpp"

namespace swarmpi {

/// E(t + d) of every tensor from e(t) (`measured`) and E(t + d - 1) (`previous`). A tensor may
/// shrink by one a step, never falls more than the headroom below the largest of all, and takes the
/// largest when nothing set it yet.
Exponents next_exponents(const Exponents& measured, const Exponents& previous);

}  // namespace swarmpi
