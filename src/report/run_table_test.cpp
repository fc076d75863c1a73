#include "report/run_table.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/deck.hpp"

namespace swarmpi::run_table_test {
namespace {

RunFile run_with(double lr, double last_loss) {
  Config config;
  config.train.steps = 3;
  config.train.lr = lr;
  config.output.run = "somewhere/" + std::to_string(lr);
  RunFile run;
  run.deck = resolved_deck(config);
  run.fingerprint = "00ff";
  run.version = "1";
  run.verdict = "valid";
  run.complete = true;
  for (std::int64_t step = 0; step <= 3; ++step) {
    StepRow row;
    row.step = step;
    row.loss = step == 3 ? last_loss : 5;
    row.tokens = 100;
    row.time_s = 10.0 * static_cast<double>(step + 1);
    run.history.steps.push_back(row);
  }
  run.history.validation = {{0, 6, 0}, {3, last_loss + 1, 0}};
  return run;
}

RunFigures figures(const std::string& name, const RunFile& run) {
  HistoryRows rows(run.history);
  return figures_of(name, run, rows);
}

TEST(RunFigures, AreTheEndOfARun) {
  RunFile run = run_with(0.001, 2.5);
  run.history.steps[2].skipped = true;
  PeerRow works, waits;
  works.microbatches = 3;
  waits.peer = 1;
  run.history.peers = {works, works, waits};
  run.history.events = {{1, 2, EventKind::kill, 1, -1, 0, ""},
                        {2, 2, EventKind::kill, 1, -1, 0, ""}};
  const RunFigures found = figures("a", run);
  EXPECT_EQ(found.steps, 3) << "row 0 does not train";
  EXPECT_EQ(found.skipped, 1);
  EXPECT_EQ(found.loss, 2.5);
  EXPECT_EQ(found.held_out, 3.5);
  EXPECT_EQ(found.tokens, 300);
  EXPECT_EQ(found.seconds, 30);
  EXPECT_EQ(found.time_s, 40);
  EXPECT_EQ(found.peers, 1) << "who did nothing is not counted";
  EXPECT_EQ(found.lost, 1) << "each once";
}

TEST(RunTable, ShowsRunsBesideTheKeysInWhichTheyDiffer) {
  EXPECT_EQ(
      run_table({figures("a", run_with(0.001, 2.5)), figures("b", run_with(0.003, 2.25))}, 99),
      "run  train.lr  steps    loss  held out  tokens/s  time  peers  lost\n"
      "a       0.001      3  2.5000    3.5000        10  0:40      0     0\n"
      "b       0.003      3  2.2500    3.2500        10  0:40      0     0\n"
      "loss and held out: the last, in nats per token\n");
}

TEST(RunTable, SaysWhatIsNotAsInTheOthers) {
  RunFile open = run_with(0.001, 2.5), invalid = open;
  open.complete = false;
  open.verdict = "open";
  open.history.steps.pop_back();
  open.history.validation.clear();
  invalid.complete = false;
  invalid.verdict = "invalid: the training has diverged";
  invalid.fingerprint = "1234";
  const std::string table = run_table(
      {figures("a", run_with(0.001, 2.5)), figures("b", open), figures("c", invalid)}, 200);
  for (const char* part : {"2 of 3", "verdict", "valid", "open", "invalid", "fingerprint", "1234"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  EXPECT_EQ(table.find("diverged"), std::string::npos) << table;
  EXPECT_EQ(table.find("train.lr"), std::string::npos) << "it is the same in all\n" << table;
  EXPECT_EQ(table.find("version"), std::string::npos) << table;
}

TEST(RunTable, EveryRunHasItsValueOfAKeyInWhichOnlyOneDiffers) {
  const std::string table =
      run_table({figures("a", run_with(0.001, 1)), figures("b", run_with(0.001, 1)),
                 figures("c", run_with(0.5, 1))},
                200);
  EXPECT_NE(table.find("a       0.001"), std::string::npos) << table;
  EXPECT_NE(table.find("b       0.001"), std::string::npos) << table;
  EXPECT_NE(table.find("c         0.5"), std::string::npos) << table;
}

RunFile run_on(const std::vector<DeviceConfig>& devices) {
  RunFile run = run_with(0.001, 1);
  Config config = parse_deck(run.deck, "deck", {}).value();
  config.devices = devices;
  run.deck = resolved_deck(config);
  return run;
}

DeviceConfig device(const std::string& name, double gflops) {
  DeviceConfig device;
  device.name = name;
  device.gflops = gflops;
  return device;
}

TEST(RunTable, OfTablesItShowsTheValuesThatDiffer) {
  EXPECT_EQ(run_table({figures("a", run_on({device("x", 1), device("y", 3)})),
                       figures("b", run_on({device("x", 2), device("y", 3)}))},
                      99),
            "run  devices.x.gflops  steps    loss  held out  tokens/s  time  peers  lost\n"
            "a                 1.0      3  1.0000    2.0000        10  0:40      0     0\n"
            "b                 2.0      3  1.0000    2.0000        10  0:40      0     0\n"
            "loss and held out: the last, in nats per token\n");
  const std::string table =
      run_table({figures("a", run_on({})), figures("b", run_on({device("x", 7)}))}, 500);
  EXPECT_EQ(table.find("run  devices.x.gflops  "), 0u) << table;
  EXPECT_NE(table.find("\na                   -  "), std::string::npos) << table;
  EXPECT_NE(table.find("\nb                 7.0  "), std::string::npos) << table;
}

TEST(RunTable, ALongValueIsCutOnlyWhereWhatIsLeftDiffers) {
  const auto run_of = [](const std::string& text) {
    RunFile run = run_with(0.001, 1);
    Config config = parse_deck(run.deck, "deck", {}).value();
    config.data.paths = {text};
    run.deck = resolved_deck(config);
    return run;
  };
  const std::string folder(30, 'f');
  const std::string ends =
      run_table({figures("a", run_of(folder + "/1")), figures("b", run_of(folder + "/2"))}, 500);
  EXPECT_NE(ends.find("  ...fffff"), std::string::npos) << ends;
  const std::string begins =
      run_table({figures("a", run_of("1/" + folder)), figures("b", run_of("2/" + folder))}, 500);
  EXPECT_NE(begins.find("[\"1/fff"), std::string::npos) << begins;
  EXPECT_NE(begins.find("[\"2/fff"), std::string::npos) << begins;
}

TEST(RunTable, WhereNobodyKnowsThePeersThereIsNoNumberOfThem) {
  RunFigures unknown = figures("b", run_with(0.001, 1));
  unknown.peers.reset();
  const std::string table = run_table({figures("a", run_with(0.001, 1)), unknown}, 200);
  EXPECT_NE(table.find("0:40      0     0\n"), std::string::npos) << table;
  EXPECT_NE(table.find("0:40      -     0\n"), std::string::npos) << table;
}

TEST(RunTable, ADeckThatCannotBeReadIsNamed) {
  RunFile other = run_with(0.001, 2.5);
  other.deck = "who = knows";
  const std::string table = run_table({figures("a", run_with(0.1, 1)), figures("b", other)}, 200);
  EXPECT_NE(table.find("cannot read the deck of b"), std::string::npos) << table;
}

}  // namespace
}  // namespace swarmpi::run_table_test
