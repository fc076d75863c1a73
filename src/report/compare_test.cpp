#include "report/compare.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>

#include "config/deck.hpp"
#include "io/run_file.hpp"

namespace swarmpi::compare_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

RunFile sample_run() {
  RunFile run;
  run.deck = resolved_deck(Config{});
  run.fingerprint = "00ff";
  run.complete = true;
  run.verdict = "valid";
  for (std::int64_t step = 0; step <= 5; ++step) {
    StepRow row;
    row.step = step;
    row.loss = 5.0 / static_cast<double>(step + 1);
    row.grad_norm = step == 0 ? kNaN : 1.0 / 3.0;
    row.skipped = step == 0;
    row.state_hash = static_cast<std::uint64_t>(step);
    row.time_s = static_cast<double>(step);
    run.history.steps.push_back(row);
  }
  run.history.validation = {{0, 6.0, 0}, {5, 1.5, 0}};
  return run;
}

class Compare : public testing::Test {
 protected:
  Compare() {
    std::string name = (std::filesystem::temp_directory_path() / "swarmpi-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
    write("a.h5", sample_run());
  }
  ~Compare() override { std::filesystem::remove_all(folder); }

  void write(const std::string& name, const RunFile& run) {
    const Status status = write_run_file(folder / name, run);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  /// Compares the sample with a changed one; the text is in `said`.
  ExitStatus with(const std::function<void(RunFile&)>& change, std::optional<double> rtol = {}) {
    RunFile run = sample_run();
    change(run);
    write("b.h5", run);
    return files("a.h5", "b.h5", rtol);
  }
  ExitStatus files(const std::string& a, const std::string& b, std::optional<double> rtol = {}) {
    std::ostringstream out;
    const ExitStatus status = compare_runs(folder / a, folder / b, rtol, out, out);
    said = out.str();
    return status;
  }
  bool says(const std::string& text) const { return said.find(text) != std::string::npos; }

  std::filesystem::path folder;
  std::string said;
};

TEST_F(Compare, RunsThatDifferInTimesOnlyAreEqual) {
  EXPECT_EQ(with([](RunFile& run) {
              for (StepRow& row : run.history.steps) {
                row.time_s *= 2;
                row.term = 7;
                row.incarnation = 3;
              }
              run.history.events.push_back({1, 1, EventKind::resume, -1, -1, 0, ""});
              run.hosts = "elsewhere";
            }),
            ExitStatus::good);
  EXPECT_TRUE(says("equal bit for bit: 6 steps, 2 validations")) << said;
}

TEST_F(Compare, AllDataMayDifferInBuildsAndHostsOnly) {
  const auto all_with = [this](const std::function<void(RunFile&)>& change) {
    RunFile run = sample_run();
    change(run);
    write("b.h5", run);
    std::ostringstream out;
    const ExitStatus status = compare_all(folder / "a.h5", folder / "b.h5", out, out);
    said = out.str();
    return status;
  };
  EXPECT_EQ(all_with([](RunFile& run) {
              run.hosts = "elsewhere";
              run.build = "another";
              run.version = "later";
            }),
            ExitStatus::good);
  EXPECT_TRUE(says("equal in all data but for builds and hosts: 6 steps, 0 rows of peers")) << said;
  EXPECT_EQ(all_with([](RunFile& run) { run.history.steps[4].time_s = 4.5; }), ExitStatus::no);
  EXPECT_TRUE(says("steps, row 4: time_s")) << said;
  EXPECT_EQ(all_with([](RunFile& run) { run.history.peers.push_back({}); }), ExitStatus::no);
  EXPECT_TRUE(says("peers: rows\n  a: 0\n  b: 1")) << said;
  EXPECT_EQ(all_with([](RunFile& run) {
              run.history.events.push_back({1, 1, EventKind::resume, -1, -1, 0, ""});
            }),
            ExitStatus::no);
  EXPECT_TRUE(says("events: rows")) << said;
  EXPECT_EQ(all_with([](RunFile& run) { run.seed = "8"; }), ExitStatus::no);
  EXPECT_TRUE(says("seed")) << said;
}

TEST_F(Compare, WhatIsSimulatedHasLearnedNothing) {
  RunFile simulated = sample_run();
  simulated.verdict = kSimulatedVerdict;
  simulated.fidelity = kSimulatedFidelity;
  write("s.h5", simulated);
  write("t.h5", simulated);
  EXPECT_EQ(files("s.h5", "t.h5"), ExitStatus::good);
  EXPECT_TRUE(says("simulated: learning was not compared")) << said;
  EXPECT_EQ(files("a.h5", "s.h5"), ExitStatus::bad_input);
  EXPECT_TRUE(says("s.h5 is simulated and ")) << said;
  std::ostringstream out;
  EXPECT_EQ(compare_all(folder / "s.h5", folder / "a.h5", out, out), ExitStatus::bad_input);
}

TEST_F(Compare, OneBitOfALossIsFoundAndShown) {
  EXPECT_EQ(with([](RunFile& run) {
              double& loss = run.history.steps[3].loss;
              loss = std::nextafter(loss, 2.0);
              run.history.steps[4].loss = 9;
            }),
            ExitStatus::no);
  EXPECT_TRUE(says("step 3: loss")) << said;
  EXPECT_TRUE(says("1.25 (0x3ff4000000000000)")) << said;
  EXPECT_TRUE(says("1.2500000000000002 (0x3ff4000000000001)")) << said;
  EXPECT_FALSE(says("step 4")) << "only the first difference";
}

TEST_F(Compare, EachComparedFieldCounts) {
  EXPECT_EQ(with([](RunFile& run) { run.history.steps[2].grad_norm = 0.25; }), ExitStatus::no);
  EXPECT_TRUE(says("step 2: grad_norm")) << said;
  EXPECT_EQ(with([](RunFile& run) { run.history.steps[2].state_hash = 99; }), ExitStatus::no);
  EXPECT_TRUE(says("step 2: state_hash")) << said;
  EXPECT_EQ(with([](RunFile& run) { run.history.steps[2].skipped = true; }), ExitStatus::no);
  EXPECT_TRUE(says("step 2: skipped")) << said;
  EXPECT_EQ(with([](RunFile& run) { run.history.validation[1].loss = 1.25; }), ExitStatus::no);
  EXPECT_TRUE(says("validation after step 5: loss")) << said;
}

TEST_F(Compare, ANaNEqualsTheSameNaNOnly) {
  const double other = std::bit_cast<double>(std::bit_cast<std::uint64_t>(kNaN) + 1);
  const auto change = [other](RunFile& run) { run.history.steps[0].grad_norm = other; };
  EXPECT_EQ(with(change), ExitStatus::no);
  EXPECT_EQ(with(change, 1e-6), ExitStatus::good);
  EXPECT_EQ(with([](RunFile& run) { run.history.steps[1].grad_norm = kNaN; }, 1.0), ExitStatus::no);
}

TEST_F(Compare, ATolerancePermitsRoundingAndIgnoresHashes) {
  const auto change = [](RunFile& run) {
    for (StepRow& row : run.history.steps) {
      row.loss *= 1 + 1e-7;
      row.state_hash += 5;
    }
  };
  EXPECT_EQ(with(change), ExitStatus::no);
  EXPECT_EQ(with(change, 1e-6), ExitStatus::good);
  EXPECT_TRUE(says("equal to a relative 1e-06")) << said;
  EXPECT_EQ(with(change, 1e-8), ExitStatus::no);
  EXPECT_TRUE(says("relative difference")) << said;
}

TEST_F(Compare, StepsOfOneRunOnlyAreNamed) {
  EXPECT_EQ(with([](RunFile& run) {
              run.history.steps.resize(3);
              run.history.steps[2].step = 9;
              run.history.validation.pop_back();
            }),
            ExitStatus::no);
  EXPECT_TRUE(says("a.h5: 2 to 5\n")) << said;
  EXPECT_TRUE(says("b.h5: 9\n")) << said;
  EXPECT_TRUE(says("validation after steps only in")) << said;
}

TEST_F(Compare, DecksAndFingerprintsAreNamedWhetherOrNotTheyMatter) {
  const auto change = [](RunFile& run) {
    Config config;
    config.swarm.stages = 2;
    run.deck = resolved_deck(config);
    run.fingerprint = "1234";
  };
  EXPECT_EQ(with(change), ExitStatus::good);
  EXPECT_TRUE(says("swarm.stages: 1 -> 2")) << said;
  EXPECT_TRUE(says("00ff")) << said;
  EXPECT_TRUE(says("1234")) << said;
  EXPECT_EQ(with([](RunFile& run) { run.deck = "who = knows"; }), ExitStatus::good);
  EXPECT_TRUE(says("cannot read")) << said;
}

TEST_F(Compare, WhatCannotBeReadIsNamed) {
  EXPECT_EQ(files("a.h5", "missing.h5"), ExitStatus::bad_input);
  EXPECT_TRUE(says("missing.h5")) << said;
  std::ofstream(folder / "text.h5") << "no numbers\n";
  EXPECT_EQ(files("text.h5", "a.h5"), ExitStatus::bad_input);
  EXPECT_TRUE(says("text.h5")) << said;
}

TEST_F(Compare, IncompleteRunsAreEqualOnlyAsFarAsTheyGoAndThatIsSaid) {
  const auto incomplete = [](RunFile& run) {
    run.complete = false;
    run.verdict = "open";
  };
  EXPECT_EQ(with(incomplete), ExitStatus::good);
  for (const char* words : {"equal bit for bit as far as they go: 6 steps",
                            "b is not complete (verdict \"open\"): its last step is 5"}) {
    EXPECT_NE(said.find(words), std::string::npos) << said;
  }
  EXPECT_EQ(said.find("a is not"), std::string::npos) << said;
}

TEST_F(Compare, AnInvalidRunIsEqualToNone) {
  const auto invalid = [](RunFile& run) {
    run.complete = false;
    run.verdict = "invalid: replicas differ";
  };
  EXPECT_EQ(with(invalid), ExitStatus::no);
  EXPECT_NE(said.find("b is not a valid run: its verdict is \"invalid: replicas differ\""),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace swarmpi::compare_test
