#pragma once
// `swarmpi bench codecs`: what the codecs of stage boundaries cost, save and lose.

#include <ostream>

#include "commands/bench/bench.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// Compares each codec's bytes with the reference's, then times both ways, at the shape of a
/// boundary and from memory. Prints JSON, or a table that ends with a line VALID or INVALID.
/// Errors: failed, where bytes or decoded values differ from the reference's.
Status run_bench_codecs(const BenchOptions& options, std::ostream& out);

}  // namespace swarmpi
