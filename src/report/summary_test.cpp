#include "report/summary.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "config/deck.hpp"
#include "io/files.hpp"
#include "io/test_support.hpp"

namespace swarmpi::summary_test {
namespace {

RunFile sample_run(DataFormat data_format) {
  Config config;
  config.train.steps = 10;
  config.data.format = data_format;
  config.data.paths = {"text.bin"};
  RunFile run;
  run.deck = resolved_deck(config);
  run.fingerprint = "00ff";
  run.verdict = "valid";
  run.complete = true;
  for (std::int64_t step = 0; step <= 4; ++step) {
    StepRow row;
    row.step = step;
    row.loss = step == 3 ? 0.5 : 4.0 - static_cast<double>(step) / 2;
    row.tokens = 100;
    row.time_s = 10.0 * static_cast<double>(step + 1);
    row.skipped = step == 0 || step == 2;
    row.term = step < 3 ? 1 : 2;
    run.history.steps.push_back(row);
  }
  run.history.validation = {{2, 3.0, 0}, {4, 2.75, 0}};
  run.history.events = {{1, 2, EventKind::resume, -1, -1, 0, ""}};
  return run;
}

TEST(Summary, TellsTheRunInAFewLines) {
  const std::string text = run_summary(sample_run(DataFormat::tokens_u16));
  for (const char* expected :
       {"4 of 10, 1 skipped", "3.5000    0.5000    2.0000    nats per token, best at step 3",
        "3.0000    2.7500    2.7500    nats per token, best at step 4", "400, 10 tokens/s",
        "50.0 s", "2, resumed 1 time\n", "00ff", "valid, complete"}) {
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\n" << text;
  }
  EXPECT_EQ(text.find("bits per byte"), std::string::npos) << text;
}

// All steps of a leader may have been done again, after a fall back.
TEST(Summary, CountsLeadersOfWhomNoStepStands) {
  RunFile run = sample_run(DataFormat::tokens_u16);
  for (const double time_s : {0, 2, 3}) {
    run.history.events.push_back({time_s, 1, EventKind::leader, 0, -1, 0, ""});
  }
  EXPECT_NE(run_summary(run).find("3, resumed 1 time\n"), std::string::npos) << run_summary(run);
}

TEST(Summary, OfLossesThatAreNoNumbersNoneIsTheBest) {
  RunFile run = sample_run(DataFormat::tokens_u16);
  for (StepRow& row : run.history.steps) row.loss = std::numeric_limits<double>::quiet_NaN();
  run.history.validation.clear();
  EXPECT_EQ(run_summary(run).find("best at"), std::string::npos) << run_summary(run);
}

TEST(Summary, OfARunFileIsThatOfItsRows) {
  const TestFolder folder;
  const RunFile run = sample_run(DataFormat::bytes);
  ASSERT_TRUE(write_run_file(folder / "RUN.h5", run).ok());
  const Result<std::string> text = run_file_summary(folder / "RUN.h5");
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(text.value(), run_summary(run));
  EXPECT_EQ(run_file_summary(folder / "none.h5").status().code(), ExitStatus::bad_input);
}

TEST(Summary, OfAFileWithRowsThatCannotBeReadIsRefused) {
  const TestFolder folder;
  ASSERT_TRUE(write_run_file(folder / "RUN.h5", sample_run(DataFormat::bytes)).ok());
  std::string content = read_file(folder / "RUN.h5").value();
  const std::string kind = "resume";
  content.replace(content.rfind(kind), kind.size(), "eclips");
  std::ofstream(folder / "RUN.h5", std::ios::binary) << content;
  const Status status = run_file_summary(folder / "RUN.h5").status();
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_NE(status.message().find("`eclips`"), std::string::npos) << status.message();
}

TEST(Summary, BytesAreShownInBitsToo) {
  const std::string text = run_summary(sample_run(DataFormat::bytes));
  EXPECT_NE(text.find("3.9674    bits per byte"), std::string::npos) << text;
}

TEST(Summary, OfSeveralPeersTellsWhoDidWhat) {
  RunFile run = sample_run(DataFormat::bytes);
  EXPECT_EQ(run_summary(run).find("\npeers "), std::string::npos);
  run.history.peers = {{1, 0, 0, 0.5}, {1, 1, 1, 0.5}};
  EXPECT_NE(run_summary(run).find("\npeers        peer  stages  microbatches"), std::string::npos)
      << run_summary(run);
}

TEST(Summary, TellsWhatDeathsHaveCost) {
  RunFile run = sample_run(DataFormat::bytes);
  EXPECT_EQ(run_summary(run).find("\nlost "), std::string::npos);
  run.history.events = {
      {1, 2, EventKind::kill, 3, -1, 0, "peer 3 was lost"},
      {1, 2, EventKind::kill, 4, -1, 0, "peer 4 was lost"},
      {1, 2, EventKind::repair, 0, -1, 0.002, "1 microbatches sent again"},
      {2, 3, EventKind::kill, 0, -1, 0, "the leader was lost; peer 1 has taken over"},
      {2, 3, EventKind::kill, 4, -1, 0, "lost before peer 1 began to lead"},
      {2, 3, EventKind::repair, 1, -1, 0.004, "0 microbatches sent again"}};
  PeerRow row;
  row.step = 3;
  row.repeated = 2;
  row.recovery_s = 0.25;
  run.history.peers = {row};
  EXPECT_NE(run_summary(run).find("\nlost         3 peers; 2 repairs, median 4.0 ms, longest 4.0 "
                                  "ms; 2 passes repeated, 0.25 s\n"),
            std::string::npos)
      << run_summary(run);
}

TEST(Summary, ARunWithoutRowsOrReadableDeckHasASummary) {
  EXPECT_NE(run_summary(RunFile{}).find("none"), std::string::npos);
  RunFile run = sample_run(DataFormat::bytes);
  for (StepRow& row : run.history.steps) row.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(run_summary(run).find("nan"), std::string::npos);
}

}  // namespace
}  // namespace swarmpi::summary_test
