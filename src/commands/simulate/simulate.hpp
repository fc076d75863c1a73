#pragma once
// `swarmpi simulate`: a deck's run in virtual time, in one process: the same protocol, devices and
// links by the models, nothing computed.

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

struct SimulateOptions {
  std::string deck;
  std::vector<std::string> overrides = {};
  std::optional<std::string> out = {};  ///< the run file, else output.run
  bool check = false;                   ///< torture's referee watches
  bool quiet = false;
};

/// good: all steps are done; no: a rule of the protocol was broken; bad_input: nothing was written;
/// stopped: the run ended before, with what there is in the run file.
ExitStatus run_simulate(const SimulateOptions& options, std::ostream& out, std::ostream& error);

}  // namespace swarmpi
