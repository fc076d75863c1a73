#pragma once
// `swarmpi bench model`: whole training steps of one peer without the protocol around them.

#include <ostream>

#include "commands/bench/bench.hpp"
#include "core/status.hpp"

namespace swarmpi {

Status run_bench_model(const BenchOptions& options, std::ostream& out);

}  // namespace swarmpi
