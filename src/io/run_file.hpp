#pragma once
// RUN.h5: the tables and attributes that people plot and compare. It is always written as a whole
// and renamed into place, so that no reader sees an incomplete one.

#include <string>

#include "core/records.hpp"
#include "core/status.hpp"
#include "io/files.hpp"
#include "io/table_rows.hpp"

namespace swarmpi {

/// All but the tables.
struct RunFileHead : RunOrigin {
  bool complete = false;
  std::string verdict = "open";  ///< "valid", "invalid: why", "open"
};

struct RunFile : RunFileHead {
  History history;
};

/// Errors: stopped (no room, I/O). Its memory does not depend on the number of rows.
Status write_run_file(const std::string& path, const RunFileHead& run, TableRows& rows,
                      const MayPublish& may_publish = {});
Status write_run_file(const std::string& path, const RunFile& run,
                      const MayPublish& may_publish = {});
/// Errors: bad_input (missing, not HDF5, not a run file, cut off).
Result<RunFile> read_run_file(const std::string& path);

}  // namespace swarmpi
