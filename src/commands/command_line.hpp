#pragma once
// The command line: turns arguments into a command with its options, or into a message and a
// status. Nothing else uses CLI11.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "commands/bench/bench.hpp"
#include "commands/check.hpp"
#include "commands/evaluate.hpp"
#include "commands/sample.hpp"
#include "commands/simulate/simulate.hpp"
#include "commands/sweep/sweep.hpp"
#include "commands/torture.hpp"
#include "commands/train/train.hpp"
#include "core/choices.hpp"
#include "core/status.hpp"
#include "hardware/preemption_model.hpp"

namespace swarmpi {

/// `swarmpi prepare`: text files or folders to byte tokens.
struct PrepareOptions {
  std::string out;
  std::vector<std::string> sources;
  bool force = false;  ///< replaces whatever stands at `out`
};

struct CompareCommand {
  std::string a, b;
  std::optional<double> rtol;
  bool all = false;  ///< all tables, and what else the files say, but for build and hosts
};

struct InfoCommand {
  std::vector<std::string> runs;  ///< none: this build and machine
};

enum class Benchmark : std::uint8_t { kernels, model, wiring, reduce, codecs, stage };
constexpr auto names_of(Benchmark) {
  return names({"kernels", "model", "wiring", "reduce", "codecs", "stage"});
}

struct BenchCommand {
  std::vector<Benchmark> what = {Benchmark::kernels, Benchmark::model};
  BenchOptions options;
};

/// `swarmpi trace`: a random trace of preemptions.
struct TraceOptions {
  std::string out;
  TraceModel model;
};

using Command = std::variant<TrainOptions, CheckOptions, PrepareOptions, CompareCommand,
                             SampleOptions, EvaluateOptions, InfoCommand, BenchCommand,
                             TortureOptions, TraceOptions, SweepOptions, SimulateOptions>;

struct ParsedLine {
  std::optional<Command> command;  ///< none: print `out` or `error`, exit with `status`
  ExitStatus status = ExitStatus::good;
  std::string out;    ///< help or version
  std::string error;  ///< what is wrong with the arguments
};

/// `arguments`: without the program's name.
ParsedLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace swarmpi
