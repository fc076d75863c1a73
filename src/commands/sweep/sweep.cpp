#include "commands/sweep/sweep.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "commands/info.hpp"
#include "commands/sweep/child.hpp"
#include "commands/sweep/planned_runs.hpp"
#include "commands/sweep/shell_words.hpp"
#include "commands/sweep/slurm_array.hpp"
#include "core/text.hpp"
#include "report/terminal.hpp"
#include "transport/mpi/info.hpp"

namespace swarmpi {
namespace {

namespace fs = std::filesystem;

// The words before the program that start it on so many ranks.
std::vector<std::string> mpirun_words(std::int64_t ranks) {
  const MpiInfo mpi = mpi_info();
  std::vector<std::string> words{mpi.mpirun};
  if (mpi.library.starts_with("Open MPI v4.")) words.emplace_back("--oversubscribe");
  if (mpi.library.starts_with("Open MPI v5.")) {
    if (mpi.fault_tolerance) words.insert(words.end(), {"--with-ft", "ulfm"});
    words.insert(words.end(), {"--map-by", "node:oversubscribe"});
  }
  words.insert(words.end(), {"-n", std::to_string(ranks)});
  return words;
}

std::string this_program() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? "swarmpi" : path.string();
}

// The script that draws runs: where env.sh says, or the program stands in bin/ of where it was
// installed, or in a build folder of the project; "" if it is in none of these.
std::string drawing_script() {
  const char* const share = std::getenv("SWARMPI_SHARE");
  const fs::path above = fs::path(this_program()).parent_path().parent_path();
  for (const fs::path& folder :
       {fs::path(share == nullptr ? "" : share), above / "share/swarmpi", above}) {
    std::error_code error;
    const fs::path script = folder / "postprocess/plot_run.py";
    if (!folder.empty() && fs::exists(script, error)) return script.string();
  }
  return "";
}

class Sweep {
 public:
  /// `launcher`: the words of options.launcher.
  Sweep(const SweepOptions& options, std::vector<std::string> launcher,
        std::vector<PlannedRun> runs, std::ostream& out)
      : options_(options), launcher_(std::move(launcher)), runs_(std::move(runs)), out_(out) {}

  /// Errors: what ended the sweep before it has tried all runs.
  Status run_all();
  /// What all have come to.
  void print_results();
  std::int64_t failed() const { return count(Standing::failed); }

 private:
  std::int64_t count(Standing standing) const;
  bool has_ended(const PlannedRun& run) const;
  Status run_one(const PlannedRun& run, bool begun);
  Status judge(const PlannedRun& run, const EndedChild& child) const;
  std::vector<std::string> command_of(const PlannedRun& run, bool begun) const;
  std::string stopped_text(const std::string& why) const;
  void print_picture(const std::vector<std::string>& files);

  const SweepOptions& options_;
  const std::vector<std::string> launcher_;
  const std::vector<PlannedRun> runs_;
  const bool is_new_ = ::access(sweep_folder(options_).c_str(), F_OK) != 0;
  std::ostream& out_;
  HeldSignals signals_;  // also between two runs, and while the table is made
};

std::int64_t Sweep::count(Standing standing) const {
  return std::count_if(runs_.begin(), runs_.end(), [&](const PlannedRun& run) {
    return standing_of(options_, run) == standing;
  });
}

bool Sweep::has_ended(const PlannedRun& run) const {
  const Standing standing = standing_of(options_, run);
  return standing == Standing::complete || standing == Standing::failed;
}

std::vector<std::string> Sweep::command_of(const PlannedRun& run, bool begun) const {
  std::vector<std::string> words = options_.ranks ? mpirun_words(*options_.ranks) : launcher_;
  words.insert(words.end(), {this_program(), "train", options_.deck, "--out", run.run_file()});
  for (const std::string& setting : run.settings) words.insert(words.end(), {"--set", setting});
  words.insert(words.end(), {"--set", "output.checkpoint=" + run.checkpoints()});
  if (begun) words.insert(words.end(), {"--resume", run.checkpoints()});
  if (options_.quiet) words.emplace_back("--quiet");
  return words;
}

std::string Sweep::stopped_text(const std::string& why) const {
  return fmt::format("{}: {} of {} runs are complete; the same command goes on with the others",
                     why, count(Standing::complete), runs_.size());
}

// mpirun may hide the run's status: what counts is what the run has left.
Status Sweep::judge(const PlannedRun& run, const EndedChild& child) const {
  const auto ended = [this](const PlannedRun& one) { return has_ended(one); };
  if (child.stopped && !std::ranges::all_of(runs_, ended)) {
    return Status::stopped(stopped_text("sweep stopped"));
  }
  if (has_ended(run)) return {};
  const std::string what = run.name + " has ended " + how_it_ended(child);
  if (child.status == static_cast<int>(ExitStatus::bad_input)) {
    return Status::bad_input(what + ", see its message above");
  }
  return Status::stopped(stopped_text(what));
}

Status Sweep::run_one(const PlannedRun& run, bool begun) {
  std::error_code error;
  fs::create_directories(run.checkpoints(), error);
  if (error) return Status::bad_input("cannot make " + run.checkpoints() + ": " + error.message());
  out_.flush();
  const Result<EndedChild> child = run_child(command_of(run, begun), signals_);
  if (!child.ok()) {
    // It did not begin, as where the launcher is not there: no empty folder of it stays.
    for (const auto& folder : {run.checkpoints(), run.folder}) ::rmdir(folder.c_str());
    if (is_new_) ::rmdir(sweep_folder(options_).c_str());
    return child.status();
  }
  return judge(run, child.value());
}

Status Sweep::run_all() {
  std::size_t number = 0;
  for (const PlannedRun& run : runs_) {
    const Standing standing = standing_of(options_, run);
    const std::string heading = fmt::format("run {} of {}: {}", ++number, runs_.size(), run.name);
    if (standing == Standing::complete || standing == Standing::failed) {
      out_ << heading << (standing == Standing::complete ? ": is complete\n" : ": has failed\n");
      continue;
    }
    if (signals_.take_stop()) return Status::stopped(stopped_text("sweep stopped"));
    out_ << heading << " in " << run.folder << "\n";
    if (Status status = run_one(run, standing == Standing::unfinished); !status.ok()) {
      return status;
    }
    out_ << "\n";
  }
  return {};
}

void Sweep::print_picture(const std::vector<std::string>& files) {
  const std::string picture = sweep_folder(options_) + "/sweep.png";
  const std::string script = drawing_script();
  std::vector<std::string> words{"python3", script};
  words.insert(words.end(), files.begin(), files.end());
  words.insert(words.end(), {"-o", picture});
  const bool drawn = !script.empty() && [&] {
    const Result<EndedChild> child = run_child(words, signals_, true);
    return child.ok() && child.value().signal == 0 && child.value().status == 0;
  }();
  out_ << (drawn ? "picture: " + picture
                 : "to draw them: " + (script.empty() ? "postprocess/plot_run.py" : script) + " " +
                       sweep_folder(options_) + "/*/RUN.h5 -o " + picture)
       << "\n";
}

void Sweep::print_results() {
  std::vector<std::string> files;
  for (const PlannedRun& run : runs_) {
    std::error_code error;
    if (fs::exists(run.run_file(), error)) files.push_back(run.run_file());
  }
  if (files.empty()) return;
  const Result<std::string> table = table_of(files, unbroken_columns(stdout));
  out_ << "\n" << (table.ok() ? table.value() : table.status().message() + "\n");
  print_picture(files);
}

ExitStatus say(const Status& status, std::ostream& error) {
  error << "swarmpi: " << status.message() << std::endl;
  return status.code();
}

}  // namespace

ExitStatus run_sweep(const SweepOptions& options, std::ostream& out, std::ostream& error) {
  Result<std::vector<std::string>> launcher = shell_words(options.launcher);
  if (!launcher.ok()) {
    return say(Status::bad_input("--launcher: " + launcher.status().message()), error);
  }
  Result<std::vector<PlannedRun>> runs = plan_runs(options);
  if (!runs.ok()) return say(runs.status(), error);
  if (options.print_slurm) {
    out << slurm_array(options, runs.value());
    return ExitStatus::good;
  }
  if (const Status status = check_data(options, runs.value()); !status.ok())
    return say(status, error);
  Sweep sweep(options, std::move(launcher).value(), std::move(runs).value(), out);
  const Status status = sweep.run_all();
  if (status.code() != ExitStatus::bad_input) sweep.print_results();
  out.flush();
  if (!status.ok()) return say(status, error);
  if (sweep.failed() == 0) return ExitStatus::good;
  return say(Status::failed(counted(sweep.failed(), "run") + " of the sweep failed: see the table"),
             error);
}

}  // namespace swarmpi
