#include "commands/check.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "config/deck.hpp"
#include "core/machine.hpp"

namespace swarmpi::check_test {
namespace {

class Check : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "text.bin") << std::string(20000, 'x');
    std::ofstream(folder_ / "deck.toml")
        << "[model]\nlayers = 4\nwidth = 32\nheads = 2\ncontext = 16\n[data]\npaths = [\""
        << (folder_ / "text.bin").string() << "\"]\n[train]\nsteps = 3\n[swarm]\nstages = 2\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      ("swarmpi-check-" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "-" +
       std::to_string(::getpid()));
};

TEST_F(Check, ItsOutputIsADeckThatNamesItsData) {
  std::ostringstream out;
  const Status status = run_check({(folder_ / "deck.toml").string(), {"train.lr=0.5"}}, out);
  ASSERT_TRUE(status.ok()) << status.message();
  const Result<Config> again = parse_deck(out.str(), "resolved", {});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again.value().model.width, 32);
  EXPECT_EQ(again.value().train.lr, 0.5);
  EXPECT_EQ(again.value().data.hash.size(), 16u);
}

TEST_F(Check, TheReportNamesEveryStage) {
  std::ostringstream out;
  ASSERT_TRUE(run_check({(folder_ / "deck.toml").string(), {}}, out).ok());
  for (const char* part : {"# stage 0", "# stage 1", "# parameters", "# FLOPs per token",
                           "# passes over data", "# recomputation", "# precision"})
    EXPECT_NE(out.str().find(part), std::string::npos) << part;
}

TEST_F(Check, ADeckThatIsSimulatedNeedsNoDataAndHasNothingToDoWithThisMachine) {
  const std::string deck = (folder_ / "deck.toml").string();
  const std::vector<std::string> homes = {R"(data.paths=["nothing-is-read"])", "swarm.peers=1000",
                                          "devices.t4={gflops = 8000, memory_gb = 16}",
                                          "links.home={up_mbps = 200}",
                                          R"(peers=[{device = "t4", link = "home"}])"};
  std::ostringstream out;
  const Status read = run_check({deck, homes}, out);
  EXPECT_NE(read.message().find("nothing-is-read: No such file"), std::string::npos);
  std::vector<std::string> simulated = homes;
  simulated.emplace_back("compute.fidelity=simulated");
  const Status status = run_check({deck, simulated}, out);
  ASSERT_TRUE(status.ok()) << status.message();
  const Result<Config> again = parse_deck(out.str(), "resolved", {});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again.value().compute.kernels, Kernels::native);
  for (const char* part : {"# data               none are read", "# memory of a peer   14.9 GiB",
                           "# serving stage 0", "t4, home", "# held up by"})
    EXPECT_NE(out.str().find(part), std::string::npos) << part << " is not in\n" << out.str();
  for (const char* part : {"# machine  ", "# products", "# time at best"})
    EXPECT_EQ(out.str().find(part), std::string::npos) << part << " is in\n" << out.str();
}

TEST_F(Check, ItWarnsWhereSignsOfLifeWillComeTooLateAmongManyReplicas) {
  const auto warning = [this](const std::string& peers, const std::string& suspect_after_s) {
    std::ostringstream out;
    const Status status =
        run_check({(folder_ / "deck.toml").string(),
                   {"compute.fidelity=simulated", "model.width=512", "swarm.peers=" + peers,
                    "swarm.suspect_after_s=" + suspect_after_s,
                    "links.home={up_mbps = 3, down_mbps = 200}", R"(peers=[{link = "home"}])"}},
                  out);
    EXPECT_TRUE(status.ok()) << status.message();
    const auto at = out.str().find("# WARNING ");
    return at == std::string::npos ? "" : out.str().substr(at, out.str().find('\n', at) - at);
  };
  EXPECT_EQ(warning("40", "3"), "");
  EXPECT_EQ(
      warning("80", "3"),
      "# WARNING            among the 40 replicas of stage 0 a ping and its answer take up to "
      "6.82 s while sums are reduced; after 4.5 s live peers are killed: set "
      "swarm.suspect_after_s to 6 at least, or have fewer replicas a stage");
  EXPECT_EQ(warning("80", "6"), "");
}

// Of the sums that go round a ring nothing is finished before all are back.
TEST_F(Check, ItSaysHowOftenDeathsHaveAReductionBegunAnew) {
  const auto deaths = [this](const std::string& peers, const std::string& mtbf_s) {
    std::ostringstream out;
    const Status status =
        run_check({(folder_ / "deck.toml").string(),
                   {"compute.fidelity=simulated", "faults.mode=emulated", "model.width=512",
                    "swarm.peers=" + peers, "faults.mtbf_s=" + mtbf_s,
                    "links.home={latency_s = 0.05, up_mbps = 20, down_mbps = 20}",
                    R"(devices.t4={gflops = 1e6})", R"(peers=[{device = "t4", link = "home"}])"}},
                  out);
    EXPECT_TRUE(status.ok()) << status.message();
    const auto at = out.str().find(" one dies each ");
    const std::size_t begin = out.str().rfind('\n', at) + 1;
    return at == std::string::npos ? "" : out.str().substr(begin, out.str().find('\n', at) - begin);
  };
  EXPECT_EQ(deaths("32", "1000"), "") << "so few replicas need no ring";
  EXPECT_EQ(deaths("80", "0"), "") << "nobody dies";
  EXPECT_EQ(
      deaths("80", "8000"),
      "# deaths             of the 40 replicas of stage 0 one dies each 200 s; a reduction that "
      "has finished no chunk, in its first 19.4 s, is then begun anew: 0.1 times on average");
  EXPECT_EQ(
      deaths("80", "400"),
      "# WARNING            of the 40 replicas of stage 0 one dies each 10 s; a reduction that has "
      "finished no chunk, in its first 19.4 s, is then begun anew: 5.9 times on average, so that "
      "most of the time is lost: have fewer replicas a stage, for instance by more stages");
}

TEST_F(Check, WhereTheDefaultWindowIsNarrowAWiderOneIsNamed) {
  const auto wider = [this](const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {"compute.fidelity=simulated", "swarm.peers=8", "model.layers=8",
                                    "devices.fast={gflops = 9000}", "devices.slow={gflops = 3000}"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    std::ostringstream out;
    const Status status = run_check({(folder_ / "deck.toml").string(), all}, out);
    EXPECT_TRUE(status.ok()) << status.message();
    const auto at = out.str().find("#   a wider one      ");
    return at == std::string::npos ? "" : out.str().substr(at, out.str().find(';', at) - at);
  };
  const std::string even = R"(peers=[{device = "fast"}])";
  const std::string uneven = R"(peers=[{peers = [0], device = "slow"}, {device = "fast"}])";
  EXPECT_EQ(wider({even, "train.microbatches=64"}), "");
  EXPECT_EQ(wider({uneven, "train.microbatches=64"}),
            "#   a wider one      swarm.window = 32 may be up to a quarter faster, for peers are "
            "uneven");
  EXPECT_EQ(wider({uneven, "train.microbatches=8"}), "") << "a step has no more";
  EXPECT_EQ(wider({uneven, "train.microbatches=64", "swarm.window=16"}), "") << "it was chosen";
  EXPECT_EQ(wider({uneven, "train.microbatches=64", "swarm.stages=8"}), "") << "no replicas";
  EXPECT_EQ(wider({even, "train.microbatches=64", "swarm.stages=8", "swarm.peers=16"}),
            "#   a wider one      swarm.window = 64 may be up to a quarter faster, for there are "
            "many stages");
}

// What crosses from one stage to the next within a peer goes over no link.
TEST_F(Check, OfAPeerThatServesAllStagesNothingGoesOverLinks) {
  const auto held_up = [this](const std::string& peers) {
    std::ostringstream out;
    const Status status =
        run_check({(folder_ / "deck.toml").string(),
                   {"compute.fidelity=simulated", "swarm.peers=" + peers,
                    "links.home={latency_s = 10, up_mbps = 0.001, down_mbps = 0.001}",
                    R"(devices.t4={gflops = 1e6, overhead_s = 0.5})",
                    R"(peers=[{device = "t4", link = "home"}])"}},
                  out);
    EXPECT_TRUE(status.ok()) << status.message();
    const auto at = out.str().find("# held up by");
    return out.str().substr(at, out.str().find('\n', at) - at);
  };
  EXPECT_NE(held_up("2").find("link"), std::string::npos) << held_up("2");
  EXPECT_EQ(held_up("1").find("link"), std::string::npos) << held_up("1");
}

TEST_F(Check, AFaultTraceThatCannotBeReadIsRefused) {
  std::ostringstream out;
  const Status status = run_check(
      {(folder_ / "deck.toml").string(), {"faults.mode=emulated", "faults.trace=nowhere.csv"}},
      out);
  EXPECT_NE(status.message().find("faults.trace: cannot read nowhere.csv"), std::string::npos)
      << status.message();
  EXPECT_EQ(out.str(), "");
}

TEST_F(Check, TheReportTellsWhatWorkTakesOnEachClassOfMachines) {
  const auto report = [this](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = {
        "swarm.peers=4", "devices.t4={gflops = 1e6, overhead_s = 0.5, price_per_hour = 0.25}",
        "links.home={latency_s = 0.01, up_mbps = 200, down_mbps = 200}",
        R"(peers=[{device = "t4", link = "home"}])"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    std::ostringstream out;
    const Status status = run_check({(folder_ / "deck.toml").string(), overrides}, out);
    EXPECT_TRUE(status.ok()) << status.message();
    return out.str();
  };
  const auto holds = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  };
  const std::string text = report({});
  holds(text,
        "#   t4, home         4 peers, stage 1: both passes 500 ms; boundaries 655 us up, 655 "
        "us down; round trip to such a peer 40 ms; reduction 4");
  holds(text,
        "# held up by         stage 0: 2 microbatches a second; the next, stage 1, does 4; a "
        "step takes 4.0");
  holds(text, "# price              1 an hour for all peers");
  holds(
      report({"swarm.window=1"}),
      "# held up by         what is in flight: a microbatch is under way for 1.54 s, so that 1 at "
      "a time make 0.649 a second; stage 0, the slowest, could do 2");
  holds(report({"links.home={up_mbps = 0.01}", "swarm.window=16"}),
        "for its links (2 by its devices alone)");
  EXPECT_EQ(report({"peers=[]"}).find("held up by"), std::string::npos);
}

TEST_F(Check, TheReportMeasuresWhatThisMachineDoesBest) {
  std::ostringstream native, reference;
  const std::string deck = (folder_ / "deck.toml").string();
  ASSERT_TRUE(run_check({deck, {}}, native).ok());
  ASSERT_TRUE(run_check({deck, {"compute.kernels=\"reference\""}}, reference).ok());
  const std::string text = native.str();
  const std::size_t at = text.find("# products           fp32 ");
  ASSERT_NE(at, std::string::npos);
  double fp32 = 0, bf16 = 0;
  EXPECT_EQ(std::sscanf(text.c_str() + at, "# products fp32 %lf, bf16 %lf", &fp32, &bf16), 2);
  EXPECT_GT(fp32, 0);
  EXPECT_GT(bf16, 0);
  EXPECT_NE(text.find("# time at best       0:00 on 1 peer, each with 1 core"), std::string::npos);
  EXPECT_EQ(reference.str().find("# products"), std::string::npos);
}

TEST_F(Check, TheReportSaysWhoServesWhatOnSoManyPeers) {
  const auto report = [&](const std::vector<std::string>& overrides) {
    std::ostringstream out;
    EXPECT_TRUE(run_check({(folder_ / "deck.toml").string(), overrides}, out).ok());
    return out.str();
  };
  const auto expect = [](const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part;
  };
  expect(report({}), {"# serving stages 0,1 peer 0\n", "# window             4 microbatches",
                      "# largest peer       peer 0 with stages 0,1: "});
  expect(report({"swarm.peers=7", "swarm.spares=2", "swarm.pins=[1]"}),
         {"# serving stage 0    peers ", "# serving stage 1    peers 0", "as spares  peers 5,6\n",
          "# window             5 microbatches"});
  expect(report({"swarm.peers=7", "swarm.spares=3", "swarm.shadows=1"}),
         {"as spares  peers 4-6\n#   shadows          1 of them learns a stage at once, up to ",
          "; a stage that none learns is not covered (swarm.stages = 2)\n"});
  expect(report({"swarm.peers=7", "swarm.spares=3", "swarm.shadows=2"}),
         {"#   shadows          2 of them learn a stage at once, up to ", " each\n"});
  expect(report({"swarm.method=1f1b", "swarm.peers=5"}),
         {"# waiting as spares  peer 4\n", "# pipelines          2 by \"1f1b\": at most 2 microb",
          "# for repairs        nothing is kept"});
  expect(report({"swarm.method=gpipe"}),
         {"at most 8 microbatches of a step in each, all forward passes first\n",
          "# recomputation      auto: every forward pass is done again"});
  expect(report({"swarm.peers=5000"}), {"(2155 in all)\n", "(2845 in all)\n"});
  expect(report({"swarm.spares=1"}), {"# peers              not on swarm.peers = 1: swarm.spares: "
                                      "not enough ranks"});
}

TEST_F(Check, WhereReplicasOwnTheStateBetweenThemItTakesMoreThanOneOfAStage) {
  const auto deaths = [this](const std::string& memory_gb) {
    std::ostringstream out;
    const Status status =
        run_check({(folder_ / "deck.toml").string(),
                   {"compute.fidelity=simulated", "model.width=256", "swarm.method=zero_offload",
                    "swarm.stages=1", "swarm.peers=8",
                    "devices.t4={gflops = 1e6, memory_gb = " + memory_gb + "}",
                    R"(peers=[{device = "t4"}])"}},
                  out);
    EXPECT_TRUE(status.ok()) << status.message();
    const auto at = out.str().find("  deaths ");
    return at == std::string::npos ? "" : out.str().substr(at, out.str().find('\n', at) - at);
  };
  EXPECT_EQ(deaths("1"), "  deaths           7 leave room for all stages");
  EXPECT_EQ(deaths("0.1"),
            "  deaths           5 leave room for all stages; with fewer than 3 peers the run ends, "
            "and can be resumed with more");
  EXPECT_EQ(deaths("0.01"), "") << "no number of peers has room";
}

TEST_F(Check, DataThatIsMissingIsBadInput) {
  std::ostringstream out;
  const Status status =
      run_check({(folder_ / "deck.toml").string(), {"data.paths=[\"/no-such\"]"}}, out);
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_EQ(out.str(), "");
}

TEST_F(Check, AHashWithoutItsFileOfWeightsIsRefused) {
  std::ostringstream out;
  const Status status =
      run_check({(folder_ / "deck.toml").string(), {"model.initial_hash=0123456789abcdef"}}, out);
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_EQ(status.message(),
            "model.initial_hash is that of a file of weights: name it with model.initial");
  EXPECT_EQ(out.str(), "");
}

// Its blocks alone would take gigabytes.
TEST_F(Check, AModelOfAnyWidthIsDescribedInLittleMemory) {
  for (const char* devices : {"peers=[]", R"(peers=[{device = "t4"}])"}) {
    const std::int64_t before = peak_memory_bytes();
    std::ostringstream out;
    const Status status = run_check({(folder_ / "deck.toml").string(),
                                     {"model.width=131072", "devices.t4={gflops = 1e6}", devices}},
                                    out);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_LT(peak_memory_bytes() - before, 256 << 20) << devices;
    for (const char* part : {"\n# parameters         825 G\n", "\n# stage 1 ", "\n# machine  "})
      EXPECT_NE(out.str().find(part), std::string::npos) << part << "\n" << out.str();
  }
}

TEST_F(Check, AFaultAfterTheLastStepIsWarnedOf) {
  const auto report = [this](const std::string& step) {
    std::ostringstream out;
    const Status status =
        run_check({(folder_ / "deck.toml").string(),
                   {"faults.mode=emulated", "swarm.peers=3",
                    "faults.at=[{step = " + step + R"(, peer = 1, event = "kill"}])"}},
                  out);
    EXPECT_TRUE(status.ok()) << status.message();
    return out.str();
  };
  EXPECT_NE(report("4").find("# WARNING            faults.at[0]: the kill of peer 1 at step 4 will "
                             "not happen: train.steps is 3\n"),
            std::string::npos);
  EXPECT_EQ(report("3").find("faults.at[0]"), std::string::npos);
}

TEST_F(Check, TheReferenceNeedsNoDeck) {
  std::ostringstream out;
  ASSERT_TRUE(run_check({"", {}, true}, out).ok());
  EXPECT_NE(out.str().find("microbatch_size"), std::string::npos);
}

}  // namespace
}  // namespace swarmpi::check_test
