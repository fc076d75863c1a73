#include "io/run_file.hpp"

#include "io/hdf5/input.hpp"
#include "io/hdf5/output.hpp"
#include "io/row_fields.hpp"
#include "io/tables.hpp"

namespace swarmpi {

Status write_run_file(const std::string& path, const RunFile& run, const MayPublish& may_publish) {
  HistoryRows rows(run.history);
  return write_run_file(path, run, rows, may_publish);
}

Status write_run_file(const std::string& path, const RunFileHead& run, TableRows& rows,
                      const MayPublish& may_publish) {
  Hdf5Output file(path, kRunFileFormat);
  for (const auto& field : kOriginFields) file.text_attribute(field.name, run.*field.member);
  file.text_attribute("complete", run.complete ? "1" : "0");
  file.text_attribute("verdict", run.verdict);
  write_tables(file, "", rows, Columns::shown);
  return file.finish(nullptr, may_publish);
}

Result<RunFile> read_run_file(const std::string& path) {
  Hdf5Input file(path, kRunFileFormat);
  // A leader's or a stage's file of a checkpoint.
  if (file.has("state") || file.has("tensors")) file.refuse("it is a part of a checkpoint");
  RunFile run;
  for (const auto& field : kOriginFields) run.*field.member = file.text_attribute(field.name);
  const std::string complete = file.text_attribute("complete");
  if (complete != "0" && complete != "1") file.refuse("its attribute `complete` is not 0 or 1");
  run.complete = complete == "1";
  run.verdict = file.text_attribute("verdict");
  run.history = read_tables(file, "", Columns::shown);
  if (!file.status().ok()) return file.status();
  return run;
}

}  // namespace swarmpi
