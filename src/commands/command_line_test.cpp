#include "commands/command_line.hpp"

#include <gtest/gtest.h>

namespace swarmpi::command_line_test {
namespace {

template <class Wanted>
Wanted parsed(const std::vector<std::string>& arguments) {
  const ParsedLine line = parse_command_line(arguments);
  EXPECT_TRUE(line.command.has_value()) << line.error;
  EXPECT_EQ(line.error, "");
  EXPECT_EQ(line.status, ExitStatus::good);
  if (!line.command || !std::holds_alternative<Wanted>(*line.command)) {
    ADD_FAILURE() << "another command was understood";
    return {};
  }
  return std::get<Wanted>(*line.command);
}

std::string refusal(const std::vector<std::string>& arguments) {
  const ParsedLine line = parse_command_line(arguments);
  EXPECT_FALSE(line.command.has_value());
  EXPECT_EQ(line.status, ExitStatus::bad_input);
  EXPECT_NE(line.error, "");
  return line.error;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CommandLine, TrainWithEverything) {
  const auto train = parsed<TrainOptions>({"train", "--set", "train.steps=5", "deck.toml", "--set",
                                           "data.paths=[\"a,b\", 'c']", "--out", "r.h5", "--resume",
                                           "checkpoints", "--dry-run", "--quiet"});
  EXPECT_EQ(train.deck, "deck.toml");
  EXPECT_EQ(train.overrides,
            (std::vector<std::string>{"train.steps=5", "data.paths=[\"a,b\", 'c']"}));
  EXPECT_EQ(train.out, "r.h5");
  EXPECT_EQ(train.resume, "checkpoints");
  EXPECT_TRUE(train.dry_run);
  EXPECT_TRUE(train.quiet);
}

TEST(CommandLine, TrainWithADeckAlone) {
  const auto train = parsed<TrainOptions>({"train", "deck.toml"});
  EXPECT_TRUE(train.overrides.empty());
  EXPECT_FALSE(train.out.has_value());
  EXPECT_FALSE(train.resume.has_value());
  EXPECT_FALSE(train.dry_run);
}

TEST(CommandLine, CheckNeedsADeckOrTheReference) {
  EXPECT_EQ(parsed<CheckOptions>({"check", "d.toml", "--set=a.b=c"}).overrides.size(), 1u);
  EXPECT_TRUE(parsed<CheckOptions>({"check", "--reference"}).reference);
  EXPECT_TRUE(contains(refusal({"check"}), "DECK is required"));
}

TEST(CommandLine, PrepareTakesManyPaths) {
  const auto prepare = parsed<PrepareOptions>({"prepare", "out.bin", "a", "b", "c"});
  EXPECT_EQ(prepare.out, "out.bin");
  EXPECT_EQ(prepare.sources, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_FALSE(prepare.force);
  EXPECT_TRUE(parsed<PrepareOptions>({"prepare", "out.bin", "a", "--force"}).force);
  refusal({"prepare", "out.bin"});
}

TEST(CommandLine, EvaluateTakesManyFiles) {
  const auto all = parsed<EvaluateOptions>(
      {"evaluate", "step-9", "--data", "a", "b", "--format", "tokens_u32", "--json"});
  EXPECT_EQ(all.checkpoint, "step-9");
  EXPECT_EQ(all.data, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(all.format, DataFormat::tokens_u32);
  EXPECT_TRUE(all.json);
  const auto least = parsed<EvaluateOptions>({"evaluate", "c"});
  EXPECT_TRUE(least.data.empty());
  EXPECT_FALSE(least.format.has_value());
  EXPECT_TRUE(contains(refusal({"evaluate", "c", "--data", "a", "--format", "tokens_u61"}),
                       "did you mean `tokens_u16`?"));
  EXPECT_TRUE(contains(refusal({"evaluate", "c", "--format", "bytes"}), "--data"));
  refusal({"evaluate"});
}

TEST(CommandLine, CompareWithAndWithoutTolerance) {
  EXPECT_FALSE(parsed<CompareCommand>({"compare", "a.h5", "b.h5"}).rtol.has_value());
  EXPECT_EQ(parsed<CompareCommand>({"compare", "a.h5", "b.h5", "--rtol", "1e-5"}).rtol, 1e-5);
  for (const char* bad : {"-1", "nan", "inf", "1e-5x", ""})
    EXPECT_TRUE(contains(refusal({"compare", "a", "b", "--rtol", bad}), "--rtol")) << bad;
  refusal({"compare", "a.h5"});
  refusal({"compare", "a.h5", "b.h5", "c.h5"});
}

TEST(CommandLine, Sample) {
  const auto sample = parsed<SampleOptions>({"sample", "step-9", "--prompt", "Once upon", "-n", "7",
                                             "--temperature", "0", "--seed", "3"});
  EXPECT_EQ(sample.checkpoint, "step-9");
  EXPECT_EQ(sample.prompt, "Once upon");
  EXPECT_EQ(sample.tokens, 7);
  EXPECT_EQ(sample.temperature, 0);
  EXPECT_EQ(sample.seed, 3u);
  EXPECT_EQ(parsed<SampleOptions>({"sample", "c", "--prompt", ""}).prompt, "");
  EXPECT_EQ(parsed<SampleOptions>({"sample", "c", "--prompt=-- [a, b]"}).prompt, "-- [a, b]");
  EXPECT_FALSE(sample.numbers.has_value());
  EXPECT_EQ(parsed<SampleOptions>({"sample", "c", "--tokens", "15 7"}).numbers, "15 7");
  EXPECT_EQ(parsed<SampleOptions>({"sample", "c", "--tokens", ""}).numbers, "");
  EXPECT_TRUE(contains(refusal({"sample", "c"}), "--prompt"));
  EXPECT_TRUE(contains(refusal({"sample", "c", "--prompt", "a", "--tokens", "1"}), "not both"));
  for (const char* bad : {"-5", "1e3", "x", "99999999999999999999"})
    EXPECT_TRUE(contains(refusal({"sample", "c", "--prompt", "a", "-n", bad}), "-n")) << bad;
  refusal({"sample", "c", "--prompt", "a", "--seed", "-1"});
}

TEST(CommandLine, InfoAndBench) {
  EXPECT_TRUE(parsed<InfoCommand>({"info"}).runs.empty());
  EXPECT_EQ(parsed<InfoCommand>({"info", "a", "b"}).runs, (std::vector<std::string>{"a", "b"}));
  const auto bench = parsed<BenchCommand>({"bench", "model", "--set", "model.layers=2", "--json"});
  EXPECT_EQ(bench.what, std::vector{Benchmark::model});
  EXPECT_TRUE(bench.options.json);
  EXPECT_EQ(bench.options.overrides.size(), 1u);
  EXPECT_EQ(parsed<BenchCommand>({"bench"}).what.size(), 2u) << "those that need no launcher";
  EXPECT_EQ(parsed<BenchCommand>({"bench", "wiring", "--json"}).what.front(), Benchmark::wiring);
}

TEST(CommandLine, TortureWithEverything) {
  const auto torture =
      parsed<TortureOptions>({"torture", "--schedules", "5", "--seed", "7", "--with", "delayed",
                              "--without", "joins", "--without", "cuts", "--real"});
  EXPECT_EQ(torture.schedules, 5);
  EXPECT_EQ(torture.seed, 7u);
  EXPECT_FALSE(torture.replay.has_value());
  EXPECT_TRUE(torture.real);
  EXPECT_EQ(torture_rules(torture).value().delayed, true);
  EXPECT_EQ(torture.without, (std::vector<std::string>{"joins", "cuts"}));
  const auto replay =
      parsed<TortureOptions>({"torture", "--replay", "18446744073709551615", "--trace"});
  EXPECT_EQ(replay.replay, 18446744073709551615u);
  EXPECT_TRUE(replay.trace);
  EXPECT_FALSE(torture_rules(replay).value().delayed.has_value());
}

TEST(CommandLine, TortureRefusesWhatItCannotMean) {
  EXPECT_TRUE(contains(refusal({"torture", "--with", "delay"}), "did you mean `delayed`"));
  EXPECT_TRUE(contains(refusal({"torture", "--without", "sleep"}), "unknown feature `sleep`"));
  EXPECT_TRUE(contains(refusal({"torture", "--with", "delayed", "--without", "delayed"}), "both"));
  EXPECT_TRUE(contains(refusal({"torture", "--trace"}), "--replay"));
  EXPECT_TRUE(contains(refusal({"torture", "--replay", "1", "--seed", "2"}), "--replay"));
  EXPECT_TRUE(contains(refusal({"torture", "--replay", "5", "--schedules", "10"}),
                       "--replay runs one schedule: leave out --schedules"));
  EXPECT_TRUE(contains(refusal({"torture", "--schedules", "0"}), "must be at least 1"));
  EXPECT_TRUE(parsed<TortureOptions>({"torture", "--hash"}).hash);
  EXPECT_TRUE(contains(refusal({"torture", "--replay", "1", "--hash", "--trace"}), "not both"));
  for (const char* bad : {"-1", "1e3", "x", "99999999999999999999"}) {
    EXPECT_TRUE(contains(refusal({"torture", "--schedules", bad}), "--schedules")) << bad;
    EXPECT_TRUE(contains(refusal({"torture", "--seed", bad}), "--seed")) << bad;
  }
  refusal({"torture", "deck.toml"});
}

TEST(CommandLine, ATraceOfNothingIsRefused) {
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"trace", "t.csv", "--peers", "3", "--hours", "2"});
    return more;
  };
  EXPECT_TRUE(parse_command_line(with({"--model", "burst"})).command);
  EXPECT_TRUE(contains(refusal({"trace", "t.csv", "--hours", "2"}), "--peers"));
  EXPECT_TRUE(contains(refusal(with({"--model", "poison"})), "did you mean `poisson`"));
  EXPECT_TRUE(contains(refusal(with({"--mtbf-s", "0"})), "--mtbf-s must be above 0"));
  EXPECT_TRUE(contains(refusal(with({"--mtbf-s", "1e-9"})), "10^8 failures"));
}

TEST(CommandLine, Sweep) {
  const auto sweep = parsed<SweepOptions>({"sweep", "--vary", "train.lr=1e-3,3e-3", "d.toml",
                                           "--vary", "train.seed=1,2", "--set", "train.steps=5",
                                           "--out", "runs/s", "--ranks", "4"});
  EXPECT_EQ(sweep.deck, "d.toml");
  EXPECT_EQ(sweep.vary, (std::vector<std::string>{"train.lr=1e-3,3e-3", "train.seed=1,2"}));
  EXPECT_EQ(sweep.overrides, std::vector<std::string>{"train.steps=5"});
  EXPECT_EQ(sweep.out, "runs/s");
  EXPECT_EQ(sweep.ranks, 4);
  EXPECT_FALSE(sweep.print_slurm);
  EXPECT_TRUE(contains(refusal({"sweep", "d.toml"}), "--vary"));
  refusal({"sweep", "d.toml", "--vary", "a.b=1", "--ranks", "0"});
  refusal({"sweep", "d.toml", "--vary", "a.b=1", "--ranks", "2", "--launcher", "srun"});
}

TEST(CommandLine, WhatThisVersionCannotDoIsSaid) {
  const ParsedLine line =
      parse_command_line({"simulate", "deck.toml", "--check", "--set", "A.B=1"});
  const auto& simulate = std::get<SimulateOptions>(line.command.value());
  EXPECT_EQ(simulate.deck, "deck.toml");
  EXPECT_TRUE(simulate.check);
  EXPECT_EQ(simulate.overrides, std::vector<std::string>{"A.B=1"});
  EXPECT_TRUE(contains(parse_command_line({"--help"}).out, "simulate"));
}

TEST(CommandLine, SlipsOfTheFingerAreGuessed) {
  EXPECT_TRUE(contains(refusal({"trian", "deck.toml"}), "did you mean `train`"));
  EXPECT_TRUE(contains(refusal({"train", "d.toml", "--quite"}), "did you mean `--quiet`"));
  EXPECT_TRUE(contains(refusal({"train", "d.toml", "--resum=x"}), "did you mean `--resume`"));
  EXPECT_TRUE(contains(refusal({"bench", "kernel"}), "did you mean `kernels`"));
  EXPECT_FALSE(contains(refusal({"fly"}), "did you mean"));
  EXPECT_TRUE(contains(refusal({"train", "d.toml", "e.toml"}), "unexpected argument `e.toml`"));
  EXPECT_TRUE(contains(refusal({"--verison"}), "did you mean `--version`"));
}

TEST(CommandLine, EachSettingNeedsItsOwnOption) {
  EXPECT_TRUE(
      contains(refusal({"train", "d.toml", "--set", "a.b=1", "c.d=2"}),
               "unexpected argument `c.d=2`; each setting needs its own --set: `--set c.d=2`"));
  for (const char* command : {"train", "check", "bench"}) {
    const std::string help = parse_command_line({command, "--help"}).out;
    EXPECT_TRUE(contains(help, "--set SECTION.KEY=VALUE ")) << help;
    EXPECT_FALSE(contains(help, "--set SECTION.KEY=VALUE ...")) << help;
  }
}

TEST(CommandLine, BadArgumentsAreAlwaysBadInput) {
  refusal({"train"});
  refusal({"train", "d.toml", "--out"});
  refusal({"train", "d.toml", "--out", ""});
  refusal({"train", "d.toml", "--dry-run=maybe"});
  refusal({"train", ""});
  refusal({""});
  refusal({"-"});
}

TEST(CommandLine, HelpAndVersionAreGood) {
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"--help"}, {"train", "--help"}, {"--version"}}) {
    const ParsedLine line = parse_command_line(arguments);
    EXPECT_EQ(line.status, ExitStatus::good);
    EXPECT_FALSE(line.command.has_value());
    EXPECT_NE(line.out, "");
    EXPECT_EQ(line.error, "");
  }
  EXPECT_TRUE(contains(parse_command_line({"train", "--help"}).out, "--resume"));
}

TEST(CommandLine, NoCommandShowsHelpAndIsBadInput) {
  const ParsedLine line = parse_command_line({});
  EXPECT_EQ(line.status, ExitStatus::bad_input);
  EXPECT_TRUE(contains(line.out, "train"));
}

}  // namespace
}  // namespace swarmpi::command_line_test
