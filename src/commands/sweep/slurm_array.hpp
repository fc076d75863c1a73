#pragma once
// A sweep as an array of Slurm jobs.

#include <string>
#include <vector>

#include "commands/sweep/planned_runs.hpp"
#include "commands/sweep/sweep.hpp"

namespace swarmpi {

/// A script for sbatch, each task of which hands one run to jobscripts/train.slurm.
std::string slurm_array(const SweepOptions& options, const std::vector<PlannedRun>& runs);

}  // namespace swarmpi
