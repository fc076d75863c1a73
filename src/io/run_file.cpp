#include "io/run_file.hpp"

#include "io/hdf5/input.hpp"
#include "io/hdf5/output.hpp"
#include "io/tables.hpp"

namespace swarmpi {

Status write_run_file(const std::string& path, const RunFile& run) {
  Hdf5Output file(path);
  file.text_attribute("deck", run.deck);
  file.text_attribute("seed", run.seed);
  file.text_attribute("version", run.version);
  file.text_attribute("build", run.build);
  file.text_attribute("fingerprint", run.fingerprint);
  file.text_attribute("hosts", run.hosts);
  file.text_attribute("complete", run.complete ? "1" : "0");
  file.text_attribute("verdict", run.verdict);
  write_tables(file, "", run.history, Columns::shown);
  return file.finish();
}

Result<RunFile> read_run_file(const std::string& path) {
  Hdf5Input file(path, "a run file");
  // A leader's or a stage's file of a checkpoint.
  if (file.has("state") || file.has("tensors")) file.refuse("it is a part of a checkpoint");
  RunFile run;
  run.deck = file.text_attribute("deck");
  run.seed = file.text_attribute("seed");
  run.version = file.text_attribute("version");
  run.build = file.text_attribute("build");
  run.fingerprint = file.text_attribute("fingerprint");
  run.hosts = file.text_attribute("hosts");
  const std::string complete = file.text_attribute("complete");
  if (complete != "0" && complete != "1") file.refuse("its attribute `complete` is not 0 or 1");
  run.complete = complete == "1";
  run.verdict = file.text_attribute("verdict");
  run.history = read_tables(file, "", Columns::shown);
  if (!file.status().ok()) return file.status();
  return run;
}

}  // namespace swarmpi
