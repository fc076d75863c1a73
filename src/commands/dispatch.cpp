#include "commands/dispatch.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <optional>
#include <sstream>
#include <variant>

#include "commands/bench/codecs.hpp"
#include "commands/bench/kernels.hpp"
#include "commands/bench/model.hpp"
#include "commands/bench/stage.hpp"
#include "commands/bench/swarm.hpp"
#include "commands/command_line.hpp"
#include "commands/info.hpp"
#include "commands/torture.hpp"
#include "commands/train/fault_trace.hpp"
#include "commands/train/handshake.hpp"
#include "core/text.hpp"
#include "data/prepare.hpp"
#include "hardware/preemption_trace.hpp"
#include "io/files.hpp"
#include "report/compare.hpp"

namespace swarmpi {
namespace {

ExitStatus print_error(const Status& status, std::ostream& error) {
  if (!status.ok()) error << "swarmpi: " << status.message() << "\n";
  return status.code();
}

// For commands that run in one process: several ranks would each do everything.
Status refuse_many_ranks(const std::string& command, const Launcher& launcher) {
  if (launcher.alone()) return {};
  std::string text = "`" + command + "` runs in one process: start it without " + launcher.name;
  if (launcher.reach == Launcher::Reach::none && !launcher.counted_by.empty()) {
    text += fmt::format(
        "; {} in the environment says that there are {} ranks: unset it if "
        "something else has left it",
        launcher.counted_by, launcher.ranks);
  }
  return Status::bad_input(text);
}

// Text files or folders to byte tokens. What was left out, and why, are warnings.
Status run_prepare(const PrepareOptions& options, std::ostream& out, std::ostream& error) {
  const Existing existing = options.force ? Existing::replace : Existing::keep;
  const Result<PreparedText> prepared = prepare_text(options.out, options.sources, existing);
  if (!prepared.ok()) return prepared.status();
  const PreparedText& text = prepared.value();
  out << options.out << ": " << text.bytes << " bytes ("
      << readable_bytes(static_cast<double>(text.bytes)) << ") of text from " << text.files
      << " files; left out " << text.duplicates << " duplicates and " << text.not_text()
      << " files that are not text" << (text.was_there ? "; it was there already" : "") << "\n";
  std::istringstream lines(text.advice());
  for (std::string line; std::getline(lines, line);) {
    error << "swarmpi: warning: left out " << line << "\n";
  }
  return {};
}

// A file that is there is replaced if it is a trace, and nothing else.
Status refuse_to_harm(const std::string& path) {
  if (!holds_something(path)) return {};
  if (Status status = refuse_what_is_no_file(path); !status.ok())
    return Status::bad_input("trace: " + status.message());
  if (FaultTrace::read(path).ok()) return {};
  return Status::bad_input("trace: " + path + " exists and is no trace: choose another name");
}

// Writes a random trace of preemptions.
Status run_trace(const TraceOptions& options, std::ostream& out) {
  if (Status status = refuse_to_harm(options.out); !status.ok()) return status;
  const TraceModel& model = options.model;
  const std::vector<TraceEvent> events = make_trace(model);
  if (Status status = write_file_durably(behind_links(options.out), trace_text(events));
      !status.ok()) {
    return Status::bad_input("trace: " + status.message());
  }
  const auto joins = std::count_if(events.begin(), events.end(), [](const TraceEvent& event) {
    return event.event == FaultEvent::join;
  });
  out << fmt::format("{}: {} peers, {:g} hours, {}: {} kills, {} joins\n", options.out, model.peers,
                     model.hours, name_of(model.kind), std::ssize(events) - joins, joins);
  return {};
}

// Runs each command of the command line.
struct Runner {
  const Launcher& launcher;
  std::ostream& out;
  std::ostream& error;

  ExitStatus operator()(const TrainOptions& options) const {
    return train(options, launcher, error);
  }
  ExitStatus operator()(const CheckOptions& options) const {
    return in_one_process("check", [&] { return print_error(run_check(options, out), error); });
  }
  ExitStatus operator()(const PrepareOptions& options) const {
    return in_one_process("prepare",
                          [&] { return print_error(run_prepare(options, out, error), error); });
  }
  ExitStatus operator()(const CompareCommand& command) const {
    return in_one_process("compare", [&] {
      return command.all ? compare_all(command.a, command.b, out, error)
                         : compare_runs(command.a, command.b, command.rtol, out, error);
    });
  }
  ExitStatus operator()(const SampleOptions& options) const {
    return in_one_process("sample",
                          [&] { return print_error(run_sample(options, out, error), error); });
  }
  ExitStatus operator()(const EvaluateOptions& options) const {
    return in_one_process("evaluate",
                          [&] { return print_error(run_evaluate(options, out, error), error); });
  }
  ExitStatus operator()(const InfoCommand& command) const {
    return in_one_process("info", [&] { return print_error(run_info(command.runs, out), error); });
  }
  ExitStatus operator()(const BenchCommand& command) const {
    const Benchmark first = command.what.front();
    if (first == Benchmark::wiring || first == Benchmark::reduce) return bench_all(command);
    return in_one_process("bench " + name_of(first), [&] { return bench_all(command); });
  }
  ExitStatus operator()(const TortureOptions& options) const {
    return in_one_process("torture", [&] { return run_torture(options, out); });
  }
  ExitStatus operator()(const TraceOptions& options) const {
    return in_one_process("trace", [&] { return print_error(run_trace(options, out), error); });
  }
  ExitStatus operator()(const SimulateOptions& options) const {
    return in_one_process("simulate", [&] { return run_simulate(options, out, error); });
  }
  ExitStatus operator()(const SweepOptions& options) const {
    return in_one_process("sweep", [&] { return run_sweep(options, out, error); });
  }

  template <class Run>
  ExitStatus in_one_process(const std::string& command, const Run& run) const {
    const Status status = refuse_many_ranks(command, launcher);
    if (!status.ok()) return refuse_to_start(launcher, status, error);
    try {
      return run();
    } catch (const std::bad_alloc&) {
      error << "swarmpi: " << command << ": this takes more memory than this process may have\n";
      return ExitStatus::no;
    }
  }
  ExitStatus bench_all(const BenchCommand& command) const {
    for (const Benchmark what : command.what) {
      if (const ExitStatus ended = bench(what, command.options); ended != ExitStatus::good) {
        return ended;
      }
    }
    return ExitStatus::good;
  }
  ExitStatus bench(Benchmark what, const BenchOptions& options) const {
    switch (what) {
      case Benchmark::kernels:
        return print_error(run_bench_kernels(options, out), error);
      case Benchmark::model:
        return print_error(run_bench_model(options, out), error);
      case Benchmark::codecs:
        return print_error(run_bench_codecs(options, out), error);
      case Benchmark::stage:
        return print_error(run_bench_stage(options, out), error);
      case Benchmark::wiring:
        return run_bench_wiring(options, launcher, out, error);
      case Benchmark::reduce:
        break;
    }
    return run_bench_reduce(options, launcher, out, error);
  }
};

}  // namespace

ExitStatus run_command_line(const std::vector<std::string>& arguments, const Launcher& launcher,
                            std::ostream& out, std::ostream& error) {
  if (const auto port = port_of_newcomer(arguments)) {
    return train(NewcomerOptions{*port}, launcher, error);
  }
  const ParsedLine line = parse_command_line(arguments);
  if (launcher.first()) out << line.out;
  if (!line.error.empty()) {
    return refuse_to_start(launcher, Status::bad_input(line.error + "; see `swarmpi --help`"),
                           error);
  }
  if (!line.command) return line.status;
  return std::visit(Runner{launcher, out, error}, *line.command);
}

}  // namespace swarmpi
