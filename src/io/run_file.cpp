#include "io/run_file.hpp"

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

#include "io/hdf5/input.hpp"
#include "io/hdf5/output.hpp"
#include "io/row_fields.hpp"
#include "io/tables.hpp"

namespace swarmpi {

namespace {

/// Numbers as numbers; the seed of a journal that somebody has changed may be none.
void write_origin(Hdf5Output& file, const OriginField& field, const std::string& value) {
  std::int64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data(), end, number);
  const bool is_number = field.is_number && error == std::errc{} && at == end;
  if (is_number) return file.integer_attribute(field.name, number);
  file.text_attribute(field.name, value);
}

}  // namespace

Status write_run_file(const std::string& path, const RunFile& run, const MayPublish& may_publish) {
  HistoryRows rows(run.history);
  return write_run_file(path, run, rows, may_publish);
}

Status write_run_file(const std::string& path, const RunFileHead& run, TableRows& rows,
                      const MayPublish& may_publish) {
  Hdf5Output file(path, kRunFileFormat);
  for (const auto& field : kOriginFields) write_origin(file, field, run.*field.member);
  file.integer_attribute("complete", run.complete ? 1 : 0);
  file.text_attribute("verdict", run.verdict);
  file.text_attribute("fidelity", run.fidelity);
  write_tables(file, "", rows, Columns::shown);
  return file.finish(nullptr, may_publish);
}

RunFileReader::RunFileReader(const std::string& path) : file_(path, kRunFileFormat) {
  // A leader's or a stage's file of a checkpoint.
  if (file_.has("state") || file_.has("tensors")) file_.refuse("it is a part of a checkpoint");
  for (const auto& field : kOriginFields) {
    head_.*field.member = file_.attribute_as_text(field.name);
  }
  const std::string complete = file_.attribute_as_text("complete");
  if (complete != "0" && complete != "1") file_.refuse("its attribute `complete` is not 0 or 1");
  head_.complete = complete == "1";
  head_.verdict = file_.text_attribute("verdict");
  if (file_.has_attribute("fidelity")) head_.fidelity = file_.text_attribute("fidelity");
  rows_ = open_tables(file_, "", Columns::shown);
}

Result<RunFile> read_run_file(const std::string& path) {
  RunFileReader file(path);
  RunFile run{file.head(), all_rows(file.rows())};
  if (!file.status().ok()) return file.status();
  return run;
}

}  // namespace swarmpi
