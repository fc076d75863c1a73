#pragma once
// RUN.h5: the tables and attributes that people plot and compare. It is always written as a whole
// and renamed into place, so that no reader sees an incomplete one.

#include <memory>
#include <string>

#include "core/records.hpp"
#include "core/status.hpp"
#include "io/files.hpp"
#include "io/hdf5/input.hpp"
#include "io/table_rows.hpp"

namespace swarmpi {

/// Of a run that computed nothing: its losses and gradient norms are NaN.
inline constexpr char kSimulatedVerdict[] = "simulated";
/// Of a run in virtual time.
inline constexpr char kSimulatedFidelity[] = "simulated";

/// All but the tables.
struct RunFileHead : RunOrigin {
  bool complete = false;
  std::string verdict = "open";  ///< "valid", "invalid: why", "open", "simulated"
  /// compute.fidelity; older files do not say: "real".
  std::string fidelity = "real";

  /// Whether its losses are those of a model.
  bool has_learned() const {
    return verdict != kSimulatedVerdict && fidelity != kSimulatedFidelity;
  }
};

struct RunFile : RunFileHead {
  History history;
};

/// Errors: stopped (no room, I/O). Its memory does not depend on the number of rows.
Status write_run_file(const std::string& path, const RunFileHead& run, TableRows& rows,
                      const MayPublish& may_publish = {});
Status write_run_file(const std::string& path, const RunFile& run,
                      const MayPublish& may_publish = {});

/// A run file whose rows are read when they are asked for, in blocks: its memory does not depend on
/// their number.
class RunFileReader {
 public:
  explicit RunFileReader(const std::string& path);

  /// ok, or bad_input: missing, not HDF5, not a run file, cut off. To be asked again after rows:
  /// where some cannot be read, no more come.
  const Status& status() const { return file_.status(); }
  /// Whether it says that it is something else, weights for one.
  bool is_something_else() const { return file_.is_of_another_format(); }
  const RunFileHead& head() const { return head_; }
  TableRows& rows() { return *rows_; }

 private:
  Hdf5Input file_;
  RunFileHead head_;
  std::unique_ptr<TableRows> rows_;
};

/// All of it, in memory. Errors: as RunFileReader.
Result<RunFile> read_run_file(const std::string& path);

}  // namespace swarmpi
