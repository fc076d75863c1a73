#pragma once
// The summary of a run, in about a dozen lines.

#include <string>

#include "io/run_file.hpp"

namespace swarmpi {

/// The table that `swarmpi info RUN.h5` and the end of training show.
std::string run_summary(const RunFile& run);

}  // namespace swarmpi
