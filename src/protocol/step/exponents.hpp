#pragma once
// Rule 5 of order-free sums (docs/numerics.md): the fixed-point exponents of a coming step from
// those that a step has measured.

#include "core/records.hpp"

namespace swarmpi {

/// E(t + d) of each tensor from e(t) (`measured`) and E(t + d - 1) (`previous`), d the delay of
/// updates in steps. An exponent rises at once and falls by one a step at most; it is never more
/// than kHeadroomBits below the largest measured one, which a tensor without any exponent takes.
/// REQUIRES: equal sizes.
Exponents next_exponents(const Exponents& measured, const Exponents& previous);

}  // namespace swarmpi
