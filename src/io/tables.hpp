#pragma once
// The tables of a run as HDF5 columns, for the run file and the checkpoint.

#include <cstddef>
#include <memory>
#include <string>

#include "core/records.hpp"
#include "io/hdf5/input.hpp"
#include "io/hdf5/output.hpp"
#include "io/table_rows.hpp"

namespace swarmpi {

/// Which columns: those that the run file shows, or all that a resumed run needs.
enum class Columns { shown, all };

/// Writes /steps, /validation, /peers, /events, /throughput and /goodput below `group` ("": the
/// root).
/// `rows` must stay, and stay as it is, until the file is finished.
void write_tables(Hdf5Output& file, const std::string& group, TableRows& rows, Columns columns);
/// Rows come from open_tables() in blocks of so many, of which one is in memory.
inline constexpr std::size_t kBlockRows = 16'384;
/// Their rows, which are read when they are asked for. `file` must stay. A missing column, or one
/// of another length or type, is an error in the file's status at once. Values that cannot be read
/// are one when it is their turn: no rows come after it.
std::unique_ptr<TableRows> open_tables(Hdf5Input& file, const std::string& group, Columns columns);
/// All of them.
History read_tables(Hdf5Input& file, const std::string& group, Columns columns);
/// All rows there are.
History all_rows(TableRows& rows);

}  // namespace swarmpi
