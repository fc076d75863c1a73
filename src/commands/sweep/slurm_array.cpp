#include "commands/sweep/slurm_array.hpp"

#include <fmt/core.h>

namespace swarmpi {
namespace {

// A word for the shell, whatever is in it.
std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string list(const std::string& name, const std::vector<std::string>& values) {
  std::string text = name + "=(\n";
  for (const std::string& value : values) text += "  " + quoted(value) + "\n";
  return text + ")\n";
}

}  // namespace

std::string slurm_array(const SweepOptions& options, const std::vector<PlannedRun>& runs) {
  std::vector<std::string> folders, settings;
  for (const PlannedRun& run : runs) {
    folders.push_back(run.folder);
    std::string all;
    for (const std::string& setting : run.settings) all += (all.empty() ? "" : " ") + setting;
    settings.push_back(all);
  }
  std::string text = fmt::format(
      "#!/usr/bin/env bash\n"
      "#SBATCH --job-name=swarmpi-sweep\n"
      "#SBATCH --array=0-{}\n"
      "#SBATCH --nodes=1 --ntasks-per-node={} --cpus-per-task=1\n"
      "#SBATCH --time=24:00:00\n"
      "#SBATCH --signal=B:USR1@120\n"
      "#SBATCH --requeue --open-mode=append --output=/dev/null\n"
      "# The runs of a sweep, each a task of this array. Submit it from the project's folder;\n"
      "# jobscripts/train.slurm, which trains each of them, says what can be set. Submitted\n"
      "# again it goes on with what is not complete. At the end: swarmpi info FOLDER/*/RUN.h5\n"
      "\n",
      runs.size() - 1, options.ranks.value_or(1));
  text += list("folders", folders) + list("settings", settings);
  text += "task=${SLURM_ARRAY_TASK_ID:?submit it with sbatch}\n";
  text += "export DECK=" + quoted(options.deck) + "\n";
  text += "export RUN_DIR=${folders[task]} SET=${settings[task]}\n";
  return text + "exec bash \"${SWARMPI_SHARE:-.}/jobscripts/train.slurm\"\n";
}

}  // namespace swarmpi
