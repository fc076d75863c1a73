#pragma once
// The fields of a contribution to a step.

#include "core/field_list.hpp"
#include "kernels/fixed_point.hpp"

namespace swarmpi {

SWARMPI_FIELDS(kernels::Contribution, exponent, nonfinite, overflow);

}  // namespace swarmpi
