#pragma once
// `swarmpi bench model`: whole training steps of one peer without the protocol around them.

#include <ostream>

#include "core/status.hpp"
#include "run/bench.hpp"

namespace swarmpi {

Status run_bench_model(const BenchOptions& options, std::ostream& out);

}  // namespace swarmpi
