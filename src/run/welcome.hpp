#pragma once
// The paragraph at the start of a run: what will be trained, on what, and what it can survive.

#include <string>
#include <vector>

#include "config/config.hpp"
#include "model/tensors.hpp"
#include "run/start_point.hpp"

namespace swarmpi {

std::string welcome(const Config& config, const std::vector<StageSpec>& stages,
                    const StartPoint& start, const std::string& fingerprint);

}  // namespace swarmpi
