#pragma once
// The summary of a run, in about a dozen lines.

#include <cstddef>
#include <string>

#include "core/status.hpp"
#include "io/run_file.hpp"

namespace swarmpi {

/// Where the values of the summary begin: longer ones go on there.
constexpr std::size_t kSummaryIndent = 13;

/// The table that `swarmpi info RUN.h5` and the end of training show. Reads each row once; its
/// memory does not grow with their number.
std::string run_summary(const RunFileHead& run, TableRows& rows);
std::string run_summary(const RunFile& run);
/// That of a run file, which is never in memory as a whole. Errors: as RunFileReader.
Result<std::string> run_file_summary(const std::string& path);

}  // namespace swarmpi
