#pragma once
// `swarmpi check`: prints the resolved deck, and the partition, FLOPs and memory of a run of it.

#include <ostream>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "core/status.hpp"
#include "data/dataset.hpp"

namespace swarmpi {

struct CheckOptions {
  std::string deck;  ///< "" with `reference`
  std::vector<std::string> overrides;
  bool reference = false;  ///< print the deck reference instead
};

/// Prints the resolved deck and a report as comments: the output is itself a valid deck.
Status run_check(const CheckOptions& options, std::ostream& out);

/// The report alone, as lines without `#`. `between_deaths_s`: as its faults have it; 0: nobody
/// dies.
std::vector<std::string> check_report(const Config& config, const Dataset& data,
                                      double between_deaths_s);
/// Likewise, where compute.fidelity is "simulated": of a swarm on other machines than this one,
/// that reads no data.
std::vector<std::string> check_report_of_simulation(Config config, double between_deaths_s);

}  // namespace swarmpi
