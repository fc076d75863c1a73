#pragma once
// `mpirun -n N swarmpi bench wiring` and `bench reduce`: what the swarm gets out of the links. They
// print their errors themselves, once.

#include <ostream>

#include "commands/bench/bench.hpp"
#include "core/status.hpp"
#include "transport/launcher.hpp"

namespace swarmpi {

/// The protocol with passes that take no time: microbatches and messages a second, and bytes a
/// second at boundaries of the deck's size.
ExitStatus run_bench_wiring(const BenchOptions& options, const Launcher& launcher,
                            std::ostream& out, std::ostream& error);

/// Real passes on synthetic tokens; from the seal to the commit: the reduction among the replicas.
ExitStatus run_bench_reduce(const BenchOptions& options, const Launcher& launcher,
                            std::ostream& out, std::ostream& error);

}  // namespace swarmpi
