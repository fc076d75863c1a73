#pragma once
// `swarmpi bench stage`: the passes and updates of one stage of a deck, without the protocol around
// them: what one peer can do at most.

#include <ostream>

#include "commands/bench/bench.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// Of the deck's stages one in the middle, if there is one: with neither embedding nor head.
Status run_bench_stage(const BenchOptions& options, std::ostream& out);

}  // namespace swarmpi
