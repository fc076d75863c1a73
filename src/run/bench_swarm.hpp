#pragma once
// `mpirun -n N swarmpi bench wiring` and `bench reduce`: what the swarm gets out of the links.

#include <ostream>

#include "core/status.hpp"
#include "run/bench.hpp"
#include "transport/launcher.hpp"

namespace swarmpi {

/// The protocol with passes that take no time: microbatches and messages a second, and bytes a
/// second at boundaries of the deck's size.
Status run_bench_wiring(const BenchOptions& options, const Launcher& launcher, std::ostream& out);

/// Real passes on made-up tokens; from the seal to the commit: the reduction among the replicas.
Status run_bench_reduce(const BenchOptions& options, const Launcher& launcher, std::ostream& out);

}  // namespace swarmpi
