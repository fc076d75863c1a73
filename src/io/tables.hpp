#pragma once
// The tables of a run as HDF5 columns, for the run file and the checkpoint.

#include <string>

#include "core/records.hpp"
#include "io/hdf5/input.hpp"
#include "io/hdf5/output.hpp"
#include "io/table_rows.hpp"

namespace swarmpi {

/// Which columns: those that the run file shows, or all that a resumed run needs.
enum class Columns { shown, all };

/// Writes /steps, /validation, /peers, /events and /throughput below `group` ("" for the root).
/// `rows` must stay, and stay as it is, until the file is finished.
void write_tables(Hdf5Output& file, const std::string& group, TableRows& rows, Columns columns);
/// Reads them. A missing column, or one of another length, is an error in the file's
/// status.
History read_tables(Hdf5Input& file, const std::string& group, Columns columns);

}  // namespace swarmpi
