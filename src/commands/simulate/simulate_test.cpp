#include "commands/simulate/simulate.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "io/run_file.hpp"
#include "report/compare.hpp"

namespace swarmpi::simulate_test {
namespace {

constexpr char kDeck[] = R"([model]
layers = 4
width = 64
heads = 4
context = 64

[data]
paths = ["there-is-no-such-file"]

[train]
steps = 6
microbatches = 12

[swarm]
stages = 2
peers = 6

[output]
checkpoint_every_s = 0

[devices.slow]
gflops = 1
overhead_s = 0.001

[[peers]]
peers = [0, 1, 2, 3, 4, 5, 6, 7]
device = "slow"
)";

class Simulate : public testing::Test {
 protected:
  Simulate() {
    std::string name = (std::filesystem::temp_directory_path() / "swarmpi-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
    std::ofstream(folder / "deck.toml") << kDeck;
  }
  ~Simulate() override { std::filesystem::remove_all(folder); }

  ExitStatus run(const std::string& name, const std::vector<std::string>& overrides = {},
                 bool check = false) {
    SimulateOptions options;
    options.deck = folder / "deck.toml";
    options.out = folder / name;
    options.overrides = overrides;
    options.check = check;
    std::ostringstream out, error;
    const ExitStatus status = run_simulate(options, out, error);
    said = out.str();
    complained = error.str();
    return status;
  }
  RunFile file(const std::string& name) const {
    Result<RunFile> read = read_run_file(folder / name);
    EXPECT_TRUE(read.ok()) << read.status().message();
    return read.ok() ? std::move(read).value() : RunFile();
  }
  std::string trace(const std::string& lines) const {
    std::ofstream(folder / "trace.csv") << lines;
    return "faults.trace=" + (folder / "trace.csv").string();
  }

  std::filesystem::path folder;
  std::string said, complained;
};

TEST_F(Simulate, ARunFileLikeAnyOtherSaysThatNothingWasLearned) {
  ASSERT_EQ(run("a.h5"), ExitStatus::good) << complained;
  const RunFile written = file("a.h5");
  EXPECT_EQ(written.verdict, "simulated");
  EXPECT_EQ(written.fidelity, "simulated");
  EXPECT_TRUE(written.complete);
  ASSERT_EQ(written.history.steps.size(), 7u);
  for (const StepRow& row : written.history.steps) {
    EXPECT_TRUE(std::isnan(row.loss));
    EXPECT_FALSE(row.skipped && row.step > 0);
  }
  EXPECT_GT(written.history.steps.back().time_s, 0);
  EXPECT_GT(written.history.peers.size(), 6u);
  for (const char* told : {"step 6/6", "simulated", "events", "a peer", "memory"}) {
    EXPECT_NE(said.find(told), std::string::npos) << told << " in\n" << said;
  }
}

TEST_F(Simulate, TwiceItIsTheSame) {
  const std::string faults = trace("time_s,event,peer\n0.05,kill,4\n0.1,join,6\n0.2,kill,0\n");
  for (const char* name : {"a.h5", "b.h5"}) {
    ASSERT_EQ(run(name, {"faults.mode=emulated", faults}), ExitStatus::good) << complained;
  }
  std::ostringstream out;
  EXPECT_EQ(compare_all(folder / "a.h5", folder / "b.h5", out, out), ExitStatus::good) << out.str();
  ASSERT_EQ(run("c.h5", {"faults.mode=emulated", faults, "swarm.window=9"}), ExitStatus::good);
  EXPECT_EQ(compare_all(folder / "a.h5", folder / "c.h5", out, out), ExitStatus::no);
}

TEST_F(Simulate, TheRefereeFindsNothingThatBreaksARule) {
  const std::string faults = trace(
      "time_s,event,peer\n0.02,kill,5\n0.05,join,6\n0.07,notice,4\n0.1,kill,0\n0.12,join,7\n");
  ASSERT_EQ(run("a.h5", {"faults.mode=emulated", faults, "swarm.spares=1"}, true), ExitStatus::good)
      << complained;
  std::int64_t deaths = 0, joins = 0;
  for (const EventRow& event : file("a.h5").history.events) {
    deaths += event.kind == EventKind::kill ? 1 : 0;
    joins += event.kind == EventKind::join ? 1 : 0;
  }
  EXPECT_GE(deaths, 2);
  EXPECT_GE(joins, 1);
}

// Its time does not begin with that of the run.
TEST_F(Simulate, APeerThatComesLateHasNotBeenIdleBefore) {
  const std::string faults = trace("time_s,event,peer\n1,kill,5\n1.2,join,6\n");
  ASSERT_EQ(run("a.h5", {"faults.mode=emulated", faults, "train.steps=40"}), ExitStatus::good)
      << complained;
  const RunFile written = file("a.h5");
  double told_s = 0, end_s = written.history.steps.back().time_s;
  for (const PeerRow& row : written.history.peers) {
    if (row.peer == 6) told_s += row.compute_s + row.idle_s + row.communication_s;
  }
  EXPECT_GT(told_s, 0);
  EXPECT_LT(told_s, end_s - 1.1) << "it came at 1.2 s";
}

TEST_F(Simulate, AStageThatIsLostGoesBackAndIsCommittedAgain) {
  const std::string faults = trace("time_s,event,peer\n0.3,kill,4\n0.3,kill,5\n0.3,kill,3\n");
  ASSERT_EQ(
      run("a.h5", {"faults.mode=emulated", faults, "swarm.spares=3", "output.checkpoint_every=1"},
          true),
      ExitStatus::good)
      << complained;
  EXPECT_EQ(file("a.h5").history.steps.size(), 7u);
}

TEST_F(Simulate, ATimeLimitStopsItWithWhatThereIs) {
  ASSERT_EQ(run("a.h5", {"train.steps=100000", "train.max_hours=0.02"}), ExitStatus::stopped);
  const RunFile written = file("a.h5");
  EXPECT_FALSE(written.complete);
  EXPECT_EQ(written.verdict, "simulated");
  EXPECT_GT(written.history.steps.size(), 10u);
  EXPECT_NEAR(written.history.steps.back().time_s, 72, 6);
}

TEST_F(Simulate, ASignalEndsItWithWhatThereIs) {
  for (const auto& [signal, name] : {std::pair{SIGTERM, "term.h5"},
                                     {SIGUSR1, "usr1.h5"},
                                     {SIGUSR2, "usr2.h5"},
                                     {SIGXCPU, "xcpu.h5"}}) {
    std::thread sender([signal = signal] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      ::kill(::getpid(), signal);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ::kill(::getpid(), signal);  // as `timeout` does
    });
    EXPECT_EQ(run(name, {"train.steps=1000000"}), ExitStatus::stopped);
    sender.join();
    EXPECT_NE(complained.find("interrupted"), std::string::npos) << complained;
    EXPECT_FALSE(file(name).complete);
  }
}

TEST_F(Simulate, WhatCannotRunIsRefusedBeforeAnythingIsWritten) {
  const auto refused = [&](const std::vector<std::string>& overrides, const std::string& why) {
    EXPECT_EQ(run("a.h5", overrides), ExitStatus::bad_input);
    EXPECT_NE(complained.find(why), std::string::npos) << complained;
    EXPECT_FALSE(std::filesystem::exists(folder / "a.h5.journal"));
  };
  refused({"swarm.peers=9"}, "peer 8 has no device");
  refused({"faults.mode=emulated", trace("time_s,event,peer\n1,join,3\n")}, "used before");
  refused({"faults.mode=emulated", trace("time_s,event,peer\n1,kill,30\n")},
          "there is no peer 30 among 6");
  ASSERT_EQ(run("a.h5"), ExitStatus::good) << complained;
  EXPECT_EQ(run("a.h5"), ExitStatus::bad_input);
  EXPECT_NE(complained.find("exists"), std::string::npos) << complained;
}

}  // namespace
}  // namespace swarmpi::simulate_test
