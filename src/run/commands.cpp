#include "run/commands.hpp"

#include <chrono>
#include <thread>
#include <variant>

#include "config/deck.hpp"
#include "run/bench_kernels.hpp"
#include "run/bench_model.hpp"
#include "run/cli.hpp"
#include "run/compare.hpp"
#include "run/info.hpp"
#include "run/train.hpp"

namespace swarmpi {
namespace {

ExitStatus report(const Status& status, std::ostream& error) {
  if (!status.ok()) error << "swarmpi: " << status.message() << "\n";
  return status.code();
}

// Found before MPI is touched; only the first rank speaks. The others give it time to: mpirun kills
// the job, its message unsaid, when the first of them leaves with an error.
bool too_many_ranks(const Launcher& launcher, std::ostream& error) {
  if (launcher.alone()) return false;
  if (launcher.rank != 0) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return true;
  }
  const std::string ranks =
      launcher.ranks == 0 ? "an unknown number of" : std::to_string(launcher.ranks);
  error << "swarmpi: started as " << ranks << " ranks by " << launcher.name
        << ": this version runs on one rank only; start it without a launcher, or with one rank\n";
  return true;
}

struct Runner {
  const Launcher& launcher;
  std::ostream& out;
  std::ostream& error;

  ExitStatus operator()(const TrainCommand& command) const {
    if (too_many_ranks(launcher, error)) return ExitStatus::bad_input;
    Result<Config> config = load_deck(command.deck, command.overrides);
    if (!config.ok()) return report(config.status(), error);
    TrainOptions options;
    options.config = std::move(config).value();
    options.out = command.out.value_or(options.config.output.run);
    options.resume = command.resume;
    options.dry_run = command.dry_run;
    options.quiet = command.quiet;
    options.launched = !launcher.name.empty();
    return run_training(options);
  }
  ExitStatus operator()(const CheckOptions& options) const {
    return report(run_check(options, out), error);
  }
  ExitStatus operator()(const PrepareOptions& options) const {
    return report(run_prepare(options, out), error);
  }
  ExitStatus operator()(const CompareCommand& command) const {
    return compare_runs(command.a, command.b, command.rtol, out, error);
  }
  ExitStatus operator()(const SampleOptions& options) const {
    return report(run_sample(options, out), error);
  }
  ExitStatus operator()(const InfoCommand& command) const {
    return report(run_info(command.run, out), error);
  }
  ExitStatus operator()(const BenchCommand& command) const {
    if (too_many_ranks(launcher, error)) return ExitStatus::bad_input;
    for (const std::string& what : command.what) {
      const Status status = what == "kernels" ? run_bench_kernels(command.options, out)
                                              : run_bench_model(command.options, out);
      if (!status.ok()) return report(status, error);
    }
    return ExitStatus::good;
  }
};

}  // namespace

ExitStatus run_command_line(const std::vector<std::string>& arguments, const Launcher& launcher,
                            std::ostream& out, std::ostream& error) {
  const ParsedLine line = parse_command_line(arguments);
  out << line.out;
  if (!line.error.empty()) error << "swarmpi: " << line.error << "; see `swarmpi --help`\n";
  if (!line.command) return line.status;
  return std::visit(Runner{launcher, out, error}, *line.command);
}

}  // namespace swarmpi
