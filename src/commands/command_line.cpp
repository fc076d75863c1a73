#include "commands/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "config/suggest.hpp"
#include "core/text.hpp"
#include "core/version.hpp"

namespace swarmpi {
namespace {

constexpr double kMostFailures = 1e8;

const std::vector<std::string> kCommands = {"train",   "check",    "prepare", "compare",
                                            "sample",  "evaluate", "info",    "bench",
                                            "torture", "trace",    "sweep",   "simulate"};
const std::vector<std::string> kFeatures = {"delayed",   "joins",  "shadows",     "cuts",
                                            "pipelines", "owners", "collectives", "outbids"};

ParsedLine refuse(const std::string& message) {
  ParsedLine line;
  line.status = ExitStatus::bad_input;
  line.error = message;
  return line;
}

template <class Names>
std::string did_you_mean(const std::string& word, const Names& names) {
  const std::string_view meant = nearest(word, {names.begin(), names.end()});
  return meant.empty() ? "" : "; did you mean `" + std::string(meant) + "`?";
}

// Accepts numbers >= 0; not NaN and infinity, which a comparison alone would let through.
std::string non_negative(const std::string& text) {
  try {
    std::size_t end = 0;
    const double value = std::stod(text, &end);
    if (end == text.size() && std::isfinite(value) && value >= 0) return "";
  } catch (const std::exception&) {
  }
  return "must be a number >= 0, not `" + text + "`";
}

// Accepts whole numbers that fit; CLI11 alone would take one that is too large for the largest.
template <class Integer>
std::string whole(const std::string& text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool read = error == std::errc() && end == text.data() + text.size() && value >= Integer{0};
  return read ? "" : "must be a whole number >= 0, not `" + text + "`";
}

std::string not_empty(const std::string& text) { return text.empty() ? "must not be empty" : ""; }

// The variables that CLI11 fills; they must outlive its parsing.
struct Arguments {
  TrainOptions train;
  CheckOptions check;
  PrepareOptions prepare;
  CompareCommand compare;
  SampleOptions sample;
  std::string sample_numbers;
  EvaluateOptions evaluate;
  std::string evaluate_format;
  InfoCommand info;
  BenchCommand bench;
  std::vector<std::string> benchmarks;
  TortureOptions torture;
  TraceOptions trace;
  SweepOptions sweep;
  SimulateOptions simulate;
  std::string trace_model = name_of(TraceModel{}.kind);
};

// An option that takes one word each time, so that what follows may be a name of a file.
CLI::Option* once_each_time(CLI::Option* option) {
  return option->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}

void add_set(CLI::App* app, std::vector<std::string>& overrides) {
  once_each_time(
      app->add_option("--set", overrides,
                      "Override a key of the deck; once for each: --set A.B=1 --set C.D=2"))
      ->type_name("SECTION.KEY=VALUE");
}

void add_train(CLI::App& app, TrainOptions& train) {
  CLI::App* command = app.add_subcommand("train", "Train the deck's model");
  command->add_option("DECK", train.deck, "Deck (TOML)")->required()->check(not_empty);
  add_set(command, train.overrides);
  command->add_option("--out", train.out, "Run file (default: the deck's output.run)")
      ->type_name("RUN.h5")
      ->check(not_empty);
  command
      ->add_option("--resume", train.resume,
                   "Resume from a step-N folder, or from the newest complete one in a folder")
      ->type_name("CHECKPOINT")
      ->check(not_empty);
  command->add_flag("--dry-run", train.dry_run, "Check everything; train and write nothing");
  command->add_flag("--quiet", train.quiet, "Print errors only");
}

void add_simulate(CLI::App& app, SimulateOptions& simulate) {
  CLI::App* command = app.add_subcommand(
      "simulate", "Run the deck's swarm in virtual time, on the devices and links that it names");
  command->add_option("DECK", simulate.deck, "Deck (TOML)")->required()->check(not_empty);
  add_set(command, simulate.overrides);
  command->add_option("--out", simulate.out, "Run file (default: the deck's output.run)")
      ->type_name("RUN.h5")
      ->check(not_empty);
  command->add_flag("--check", simulate.check,
                    "Watch every rule of the protocol, as torture does: slow, for small swarms");
  command->add_flag("--quiet", simulate.quiet, "Print errors only");
}

void add_check(CLI::App& app, CheckOptions& check) {
  CLI::App* command =
      app.add_subcommand("check", "Print the resolved deck, its partition, FLOPs and memory");
  command->add_option("DECK", check.deck, "Deck (TOML)")->check(not_empty);
  add_set(command, check.overrides);
  command->add_flag("--reference", check.reference, "Print the meaning of every key instead");
}

void add_prepare(CLI::App& app, PrepareOptions& prepare) {
  CLI::App* command = app.add_subcommand("prepare", "Turn text files or folders into byte tokens");
  command->add_option("OUT.bin", prepare.out, "File to write")->required()->check(not_empty);
  command->add_option("PATH", prepare.sources, "Text files, folders of them")
      ->required()
      ->check(not_empty);
  command->add_flag("--force", prepare.force, "Replace OUT.bin where it holds something else");
}

void add_compare(CLI::App& app, CompareCommand& compare) {
  CLI::App* command = app.add_subcommand("compare", "Compare two runs; status 1 if they differ");
  command->add_option("A.h5", compare.a, "A run file")->required()->check(not_empty);
  command->add_option("B.h5", compare.b, "Another run file")->required()->check(not_empty);
  command
      ->add_option("--rtol", compare.rtol, "Relative tolerance; without it all bits must be equal")
      ->type_name("R")
      ->check(non_negative);
  command->add_flag("--all", compare.all,
                    "Of all tables every value, and what else the files say, but for build and "
                    "hosts");
}

constexpr char kCheckpointHelp[] =
    "A step-N folder, a folder of them, a run's folder or its run file";

void add_sample(CLI::App& app, SampleOptions& sample, std::string& numbers) {
  CLI::App* command = app.add_subcommand("sample", "Generate text with a checkpoint's model");
  command->add_option("CHECKPOINT", sample.checkpoint, kCheckpointHelp)
      ->required()
      ->check(not_empty);
  command
      ->add_option("--prompt", sample.prompt,
                   "Text to continue. An empty prompt stands for a new line (token 0)")
      ->type_name("TEXT");
  command
      ->add_option("--tokens", numbers,
                   "In place of --prompt, for models of tokens: their numbers, separated by "
                   "blanks; numbers come out")
      ->type_name("NUMBERS");
  command->add_option("-n", sample.tokens, "Tokens to add")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole<std::int64_t>);
  command
      ->add_option("--temperature", sample.temperature,
                   "Of the softmax; 0: always the likeliest token")
      ->type_name("T")
      ->capture_default_str()
      ->check(non_negative);
  command->add_option("--seed", sample.seed, "Of the random draws")
      ->type_name("S")
      ->capture_default_str()
      ->check(whole<std::uint64_t>);
}

void add_evaluate(CLI::App& app, EvaluateOptions& evaluate, std::string& format) {
  CLI::App* command =
      app.add_subcommand("evaluate", "Measure the loss of a checkpoint's model over data");
  command->add_option("CHECKPOINT", evaluate.checkpoint, kCheckpointHelp)
      ->required()
      ->check(not_empty);
  command
      ->add_option("--data", evaluate.data,
                   "Files of tokens, read as one stream (default: what the run holds out)")
      ->type_name("PATH...")
      ->check(not_empty);
  command
      ->add_option("--format", format,
                   "Of these files: bytes, tokens_u16, tokens_u32 (default: as the run's data)")
      ->type_name("FORMAT");
  command->add_flag("--json", evaluate.json, "Print one JSON object");
}

void add_info(CLI::App& app, InfoCommand& info) {
  CLI::App* command = app.add_subcommand(
      "info", "Describe this build, machine and MPI; summarise a run; compare runs");
  command
      ->add_option("RUN", info.runs,
                   "A run file, its journal, its folder, or a checkpoint; several are compared")
      ->check(not_empty);
}

void add_bench(CLI::App& app, BenchCommand& bench, std::vector<std::string>& benchmarks) {
  CLI::App* command = app.add_subcommand("bench", "Measure speed against this machine's roofline");
  command
      ->add_option("WHAT", benchmarks,
                   "kernels, model (default: both), stage, codecs; wiring or reduce (under mpirun)")
      ->expected(0, 1);
  add_set(command, bench.options.overrides);
  command->add_flag("--json", bench.options.json, "Print one JSON object");
}

void add_torture(CLI::App& app, TortureOptions& torture) {
  CLI::App* command = app.add_subcommand(
      "torture", "Kill peers of random swarms in virtual time; every bit must come out the same");
  command->add_option("--schedules", torture.schedules, "Number of random swarms")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole<std::int64_t>);
  command->add_option("--seed", torture.seed, "Of all schedules (default: a fresh one)")
      ->type_name("S")
      ->check(whole<std::uint64_t>);
  command
      ->add_option("--replay", torture.replay, "Run one schedule, by the seed that it failed with")
      ->type_name("SEED")
      ->check(whole<std::uint64_t>);
  command->add_flag("--trace", torture.trace, "Print the events of the schedule that is replayed");
  command->add_flag("--hash", torture.hash,
                    "Print one hash of all events and actions of each schedule, and one of all");
  command->add_flag("--moments", torture.moments,
                    "Count what a peer was doing when a fault took effect");
  command->add_flag("--json", torture.json, "Print a last line with all counts as a JSON object");
  command->add_flag("--real", torture.real,
                    "Real kernels on tiny models instead of synthetic sums");
  once_each_time(command->add_option(
                     "--with", torture.with,
                     "All schedules have it: delayed, joins, shadows, cuts, pipelines, owners, "
                     "collectives or outbids"))
      ->type_name("FEATURE");
  once_each_time(command->add_option("--without", torture.without, "No schedule has it"))
      ->type_name("FEATURE");
}

void add_trace(CLI::App& app, TraceOptions& trace, std::string& model) {
  CLI::App* command = app.add_subcommand("trace", "Generate a preemption trace: time_s,event,peer");
  command->add_option("OUT.csv", trace.out, "File to write")->required()->check(not_empty);
  command->add_option("--peers", trace.model.peers, "Peers at the start")
      ->type_name("N")
      ->required()
      ->check(whole<std::int64_t>);
  command->add_option("--hours", trace.model.hours, "Length of the trace")
      ->type_name("H")
      ->required()
      ->check(non_negative);
  command->add_option("--mtbf-s", trace.model.mtbf_s, "Mean time between failures of one peer")
      ->type_name("X")
      ->capture_default_str()
      ->check(non_negative);
  command
      ->add_option("--return-s", trace.model.return_s,
                   "Mean time until another peer joins in place of one that failed; 0: never")
      ->type_name("X")
      ->capture_default_str()
      ->check(non_negative);
  command
      ->add_option("--model", model,
                   "poisson; diurnal: more by day; burst: half a zone of three at a time")
      ->type_name("MODEL")
      ->capture_default_str();
  command->add_option("--seed", trace.model.seed, "Of the random draws")
      ->type_name("S")
      ->capture_default_str()
      ->check(whole<std::uint64_t>);
}

void add_sweep(CLI::App& app, SweepOptions& sweep) {
  CLI::App* command = app.add_subcommand(
      "sweep", "Train a deck with every combination of some values, and compare the runs");
  command->add_option("DECK", sweep.deck, "Deck (TOML)")->required()->check(not_empty);
  once_each_time(command->add_option("--vary", sweep.vary,
                                     "The values that a key takes: --vary train.lr=1e-3,3e-3"))
      ->type_name("SECTION.KEY=VALUE,...")
      ->required();
  add_set(command, sweep.overrides);
  command
      ->add_option("--out", sweep.out,
                   "Folder that gets a folder for each run (default: runs/DECK-sweep)")
      ->type_name("FOLDER")
      ->check(not_empty);
  command->add_option("--ranks", sweep.ranks, "Ranks of each run, under mpirun")
      ->type_name("N")
      ->check(whole<std::int64_t>);
  command->add_option("--launcher", sweep.launcher, "What starts each run instead: \"srun -n 4\"")
      ->type_name("WORDS")
      ->check(not_empty);
  command->add_flag("--print-slurm", sweep.print_slurm,
                    "Print the script of a Slurm array instead, and run nothing");
  command->add_flag("--quiet", sweep.quiet, "Of each run print errors only");
}

void build(CLI::App& app, Arguments& arguments) {
  app.name("swarmpi");
  app.set_version_flag("--version", "swarmpi " + version_line() + "\n" + build_line(),
                       "Print version and build");
  app.require_subcommand(0, 1);
  add_train(app, arguments.train);
  add_check(app, arguments.check);
  add_prepare(app, arguments.prepare);
  add_compare(app, arguments.compare);
  add_sample(app, arguments.sample, arguments.sample_numbers);
  add_evaluate(app, arguments.evaluate, arguments.evaluate_format);
  add_info(app, arguments.info);
  add_bench(app, arguments.bench, arguments.benchmarks);
  add_torture(app, arguments.torture);
  add_trace(app, arguments.trace, arguments.trace_model);
  add_sweep(app, arguments.sweep);
  add_simulate(app, arguments.simulate);
  app.footer(
      "Exit status: 0 good; 1 the answer is no (files differ, the run failed); 2 bad input,\n"
      "nothing was written; 3 stopped, can be resumed.");
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// The message for an argument that CLI11 did not expect.
std::string unexpected(const CLI::App& app) {
  const CLI::App* command = &app;
  if (const auto chosen = app.get_subcommands(); !chosen.empty()) command = chosen.front();
  const std::string prefix = command == &app ? "" : command->get_name() + ": ";
  const std::vector<std::string> extras = app.remaining(true);
  const auto option = std::find_if(extras.begin(), extras.end(), [](const std::string& text) {
    return text.size() > 1 && text.front() == '-';
  });
  if (option != extras.end()) {
    const std::string name = option->substr(0, option->find('='));
    return prefix + "unknown option `" + name + "`" + did_you_mean(name, option_names(*command));
  }
  const std::string extra = extras.empty() ? "" : extras.front();
  const bool is_setting =
      extra.find('=') != std::string::npos && contains(option_names(*command), "--set");
  return prefix + "unexpected argument `" + extra + "`" +
         (is_setting ? "; each setting needs its own --set: `--set " + extra + "`" : "");
}

// The refusal of torture's arguments where they contradict each other or name unknown features.
std::optional<ParsedLine> refuse_torture(const CLI::App& command, const TortureOptions& torture) {
  for (const auto* features : {&torture.with, &torture.without}) {
    for (const std::string& feature : *features) {
      if (!contains(kFeatures, feature)) {
        return refuse("torture: unknown feature `" + feature + "`" +
                      did_you_mean(feature, kFeatures));
      }
    }
  }
  if (torture.trace && !torture.replay) return refuse("torture: --trace needs --replay SEED");
  if (torture.trace && torture.hash) return refuse("torture: give --trace or --hash, not both");
  if (torture.replay && torture.seed)
    return refuse("torture: --replay names the seed already: leave out --seed");
  if (torture.replay && command.count("--schedules") > 0)
    return refuse("torture: --replay runs one schedule: leave out --schedules");
  if (torture.schedules < 1) return refuse("torture: --schedules must be at least 1");
  const Result<TortureRules> rules = torture_rules(torture);
  if (!rules.ok()) return refuse(rules.status().message());
  return std::nullopt;
}

std::optional<ParsedLine> refuse_trace(const TraceOptions& trace) {
  if (trace.model.peers < 1) return refuse("trace: --peers must be at least 1");
  if (trace.model.mtbf_s <= 0) return refuse("trace: --mtbf-s must be above 0");
  const double failures =
      3600 * trace.model.hours / trace.model.mtbf_s * static_cast<double>(trace.model.peers);
  if (failures > kMostFailures)
    return refuse("trace: peers, hours and mtbf-s would make more than 10^8 failures");
  return std::nullopt;
}

std::optional<ParsedLine> refuse_sweep(const SweepOptions& sweep) {
  if (sweep.ranks && *sweep.ranks < 1) return refuse("sweep: --ranks must be at least 1");
  if (sweep.ranks && !sweep.launcher.empty())
    return refuse("sweep: give --ranks or --launcher, not both");
  return std::nullopt;
}

// The value of that name; or the refusal of the argument, which says what it stands for.
template <Choice T>
std::optional<ParsedLine> read_choice(const std::string& name, const std::string& what, T& choice) {
  const std::optional<T> known = value_named<T>(name);
  if (!known) return refuse(what + " `" + name + "`" + did_you_mean(name, kNamesOf<T>));
  choice = *known;
  return std::nullopt;
}

std::optional<ParsedLine> read_benchmarks(const std::vector<std::string>& names,
                                          std::vector<Benchmark>& what) {
  if (!names.empty()) what.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (auto refusal = read_choice(names[i], "bench: unknown benchmark", what[i])) return refusal;
  }
  return std::nullopt;
}

// Text or numbers: one of them.
std::optional<ParsedLine> read_prompt(const CLI::App& command, const std::string& numbers,
                                      SampleOptions& sample) {
  const bool has_prompt = command.count("--prompt") > 0,
             has_numbers = command.count("--tokens") > 0;
  if (has_prompt && has_numbers) return refuse("sample: give --prompt or --tokens, not both");
  if (!has_prompt && !has_numbers)
    return refuse("sample: --prompt TEXT is required (or --tokens NUMBERS)");
  if (has_numbers) sample.numbers = numbers;
  return std::nullopt;
}

std::optional<ParsedLine> read_format(const std::string& name, EvaluateOptions& evaluate) {
  if (name.empty()) return std::nullopt;
  if (evaluate.data.empty()) return refuse("evaluate: --format needs --data PATH...");
  DataFormat format{};
  if (auto refusal = read_choice(name, "evaluate: unknown format", format)) return refusal;
  evaluate.format = format;
  return std::nullopt;
}

// Checks the conditions between arguments that CLI11 cannot express.
ParsedLine check_arguments(const CLI::App& app, Arguments& arguments) {
  const CLI::App& command = *app.get_subcommands().front();
  const std::string name = command.get_name();
  ParsedLine line;
  if (name == "train") line.command = std::move(arguments.train);
  if (name == "prepare") line.command = std::move(arguments.prepare);
  if (name == "compare") {
    if (arguments.compare.all && arguments.compare.rtol)
      return refuse("compare: give --all or --rtol, not both");
    line.command = std::move(arguments.compare);
  }
  if (name == "sample") {
    if (auto refusal = read_prompt(command, arguments.sample_numbers, arguments.sample)) {
      return *std::move(refusal);
    }
    line.command = std::move(arguments.sample);
  }
  if (name == "evaluate") {
    if (auto refusal = read_format(arguments.evaluate_format, arguments.evaluate)) {
      return *std::move(refusal);
    }
    line.command = std::move(arguments.evaluate);
  }
  if (name == "simulate") line.command = std::move(arguments.simulate);
  if (name == "info") line.command = std::move(arguments.info);
  if (name == "check") {
    if (arguments.check.deck.empty() && !arguments.check.reference)
      return refuse("check: DECK is required (or --reference)");
    line.command = std::move(arguments.check);
  }
  if (name == "torture") {
    if (auto refusal = refuse_torture(command, arguments.torture)) return *std::move(refusal);
    line.command = std::move(arguments.torture);
  }
  if (name == "trace") {
    TraceModel& model = arguments.trace.model;
    if (auto refusal = read_choice(arguments.trace_model, "trace: unknown model", model.kind)) {
      return *std::move(refusal);
    }
    if (auto refusal = refuse_trace(arguments.trace)) return *std::move(refusal);
    line.command = std::move(arguments.trace);
  }
  if (name == "sweep") {
    if (auto refusal = refuse_sweep(arguments.sweep)) return *std::move(refusal);
    line.command = std::move(arguments.sweep);
  }
  if (name == "bench") {
    if (auto refusal = read_benchmarks(arguments.benchmarks, arguments.bench.what)) {
      return *std::move(refusal);
    }
    line.command = std::move(arguments.bench);
  }
  return line;
}

}  // namespace

ParsedLine parse_command_line(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && !arguments.front().starts_with('-')) {
    const std::string& name = arguments.front();
    if (!contains(kCommands, name))
      return refuse("unknown command `" + name + "`" + did_you_mean(name, kCommands));
  }
  CLI::App app("Trains Transformer language models with SWARM parallelism.");
  Arguments parsed;
  try {
    build(app, parsed);
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    if (!app.get_subcommands().empty()) return check_arguments(app, parsed);
    ParsedLine line = refuse("a command is missing");
    line.out = app.help();
    return line;
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream out;
    ParsedLine line;
    app.exit(success, out, out);
    line.out = out.str();
    return line;
  } catch (const CLI::ExtrasError&) {
    return refuse(unexpected(app));
  } catch (const CLI::Error& error) {
    const auto chosen = app.get_subcommands();
    return refuse((chosen.empty() ? "" : chosen.front()->get_name() + ": ") + error.what());
  }
}

}  // namespace swarmpi
