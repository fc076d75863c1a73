#pragma once
// `swarmpi bench kernels`: every operation of the native backend, first compared with the
// reference, then timed.

#include <ostream>

#include "commands/bench/bench.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// Ends with a line VALID or INVALID; `failed` where an operation is further from its reference
/// than it may be.
Status run_bench_kernels(const BenchOptions& options, std::ostream& out);

}  // namespace swarmpi
