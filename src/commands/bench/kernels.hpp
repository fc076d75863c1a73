#pragma once
// `swarmpi bench kernels`: every operation of the native backend, first compared with the
// reference, then timed.

#include <ostream>

#include "commands/bench/bench.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// Prints JSON, or a table that ends with a line VALID or INVALID. Errors: failed, where an
/// operation differs from the reference by more than its bound.
Status run_bench_kernels(const BenchOptions& options, std::ostream& out);

}  // namespace swarmpi
