#include "report/progress.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/messages/record_port.hpp"

namespace swarmpi::progress_test {
namespace {

StepRow row_of(std::int64_t step, double loss = 2.0) {
  StepRow row;
  row.step = step;
  row.loss = loss;
  row.tokens = 1000;
  return row;
}

PeerRow use(std::int64_t step, std::int64_t peer, std::int64_t stage) {
  PeerRow row;
  row.step = step;
  row.peer = peer;
  row.stage = stage;
  return row;
}

Config config_of(std::int64_t steps, DataFormat format = DataFormat::bytes) {
  Config config;
  config.train.steps = steps;
  config.data.format = format;
  return config;
}

TEST(PeersText, CountsThePeersOfEachStage) {
  EXPECT_EQ(peers_text({{0, {0, 3}}, {1, {1}}, {2, {2}}}), "peers 2+1+1");
  EXPECT_EQ(peers_text({{0, {0}}, {1, {0, 1}}}), "peers 1+2");
}

TEST(PeersText, OnePeerIsNotMentioned) {
  EXPECT_EQ(peers_text({}), "");
  EXPECT_EQ(peers_text({{0, {0}}, {1, {0}}}), "");
}

TEST(PeersText, ManyStagesAreSummedUp) {
  Serving serving;
  for (std::int64_t peer = 0; peer < 64; ++peer) serving[peer % 16].insert(peer);
  EXPECT_EQ(peers_text(serving), "peers 64 on 16 stages");
}

TEST(ProgressLine, TellsAllWhereThereIsRoom) {
  const Config config = config_of(1500);
  const Serving serving = {{0, {0, 1}}, {1, {2}}, {2, {3}}};
  EXPECT_EQ(
      progress_line(config, row_of(1234), 12.3, serving, 100),
      "step 1234/1500  loss 2.0000 (2.885 bits/byte)  12.3k tokens/s  0:22 left  peers 2+1+1");
  EXPECT_EQ(progress_line(config, row_of(1500), 12.3, {}, 100),
            "step 1500/1500  loss 2.0000 (2.885 bits/byte)  12.3k tokens/s");
  EXPECT_EQ(progress_line(config_of(10, DataFormat::tokens_u16), row_of(0), 0, {}, 100),
            "step 0/10  loss 2.0000");
}

TEST(ProgressLine, LeavesOutWhatMattersLess) {
  const Config config = config_of(1500);
  const Serving serving = {{0, {0, 1}}, {1, {2}}, {2, {3}}};
  const auto line = [&](std::size_t columns) {
    return progress_line(config, row_of(1234), 12.3, serving, columns);
  };
  EXPECT_EQ(line(79), "step 1234/1500  2.885 bits/byte  12.3k tokens/s  0:22 left  peers 2+1+1");
  EXPECT_EQ(line(70), "step 1234/1500  2.885 bits/byte  0:22 left  peers 2+1+1");
  EXPECT_EQ(line(50), "step 1234/1500  2.885 bits/byte  peers 2+1+1");
  EXPECT_EQ(line(40), "step 1234/1500  2.885 bits/byte");
  for (std::size_t columns = 1; columns < 100; ++columns) {
    EXPECT_LE(line(columns).size(), columns);
  }
}

TEST(RecentSpeed, FollowsAChange) {
  RecentSpeed speed;
  double now_s = 0;
  EXPECT_EQ(speed.steps_per_s(), 0);
  for (int i = 0; i < 1000; ++i) speed.step_done(now_s += 0.1);
  EXPECT_NEAR(speed.steps_per_s(), 10, 1e-6);
  for (int i = 0; i < 15; ++i) speed.step_done(now_s += 1);
  EXPECT_LT(speed.steps_per_s(), 4);
  for (int i = 0; i < 60; ++i) speed.step_done(now_s += 1);
  EXPECT_NEAR(speed.steps_per_s(), 1, 0.05);
}

TEST(RecentSpeed, DoesNotCareHowStepsAreBunched) {
  RecentSpeed even, bunched;
  for (int i = 0; i < 400; ++i) even.step_done(0.25 * i);
  for (int i = 0; i < 400; ++i) bunched.step_done(0.25 * (i / 4 * 4));
  EXPECT_NEAR(bunched.steps_per_s(), even.steps_per_s(), 0.05 * even.steps_per_s());
}

TEST(RecentSpeed, OfSlowStepsIsThatOfTheLastTen) {
  RecentSpeed speed;
  double now_s = 0;
  for (int i = 0; i < 40; ++i) speed.step_done(now_s += 100);
  EXPECT_NEAR(speed.steps_per_s(), 0.01, 1e-6);
  speed.step_done(now_s += 10);
  EXPECT_LT(speed.steps_per_s(), 0.012) << "one short step among long ones";
}

/// What Progress writes to a file for these records, `apart_s` one after another.
std::vector<std::string> lines_of(const std::vector<StoreRecord>& records, const Config& config,
                                  double apart_s = 100, bool quiet = false) {
  std::FILE* file = std::tmpfile();
  {
    Progress progress(config, file, quiet);
    double now_s = 0;
    for (const StoreRecord& record : records) progress.stored(now_s += apart_s, record);
  }
  std::rewind(file);
  std::vector<std::string> lines;
  char line[300];
  while (std::fgets(line, sizeof line, file) != nullptr) lines.emplace_back(line);
  std::fclose(file);
  return lines;
}

TEST(Progress, NamesThePeersOfTheLastWholeStep) {
  const Config config = config_of(3);
  const std::vector<std::string> lines = lines_of({{0, row_of(1)},
                                                   {0, use(1, 0, 0)},
                                                   {0, use(1, 1, 1)},
                                                   {0, row_of(2)},
                                                   {0, use(2, 0, 0)},
                                                   {0, use(2, 2, 0)},
                                                   {0, use(2, 1, 1)},
                                                   {0, row_of(3)}},
                                                  config);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].find("peers"), std::string::npos);
  EXPECT_NE(lines[1].find("peers 1+1\n"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("peers 2+1\n"), std::string::npos) << lines[2];
}

TEST(Progress, APlainFileGetsALineNowAndThen) {
  std::vector<StoreRecord> records;
  for (std::int64_t step = 1; step <= 100; ++step) records.push_back({step, row_of(step)});
  const Config config = config_of(100);
  const auto lines = lines_of(records, config, 1.0);
  EXPECT_GE(lines.size(), 10u);
  EXPECT_LE(lines.size(), 12u);
  EXPECT_NE(lines.back().find("step 100/100"), std::string::npos);
  EXPECT_TRUE(lines_of(records, config, 1.0, true).empty());
}

TEST(LinePace, LinesComeThickAtFirstAndThinnerTheLongerARunGoesOn) {
  LinePace pace(2, 30);
  std::vector<double> due;
  for (double now_s = 50; now_s < 4000; now_s += 0.5) {
    if (pace.due(now_s)) due.push_back(now_s);
  }
  EXPECT_EQ(due[0], 50) << "at once";
  EXPECT_EQ(due[1], 52);
  EXPECT_EQ(due[2], 54);
  for (std::size_t i = 2; i < due.size(); ++i) {
    EXPECT_GE(due[i] - due[i - 1], due[i - 1] - due[i - 2]) << i;
  }
  EXPECT_EQ(due.back() - due[due.size() - 2], 30);
}

TEST(Progress, ALogGrowsMoreSlowlyTheLongerARunGoesOn) {
  std::vector<StoreRecord> records;
  for (std::int64_t step = 1; step <= 10000; ++step) records.push_back({step, row_of(step)});
  const auto lines = lines_of(records, config_of(20000), 1.0);
  EXPECT_GE(lines.size(), 150u);
  EXPECT_LE(lines.size(), 200u) << "a line a minute after the first ten minutes";
}

TEST(Progress, ADivergenceIsOneLineHoweverManyStepsItSkips) {
  std::vector<StoreRecord> records;
  for (std::int64_t step = 1; step <= 60; ++step) {
    records.push_back(
        {step, EventRow{0, step, EventKind::skip, 0, -1, 0, "infinite gradients: a b c"}});
  }
  const auto lines = lines_of(records, config_of(60));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("step 1 "), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("10 steps skipped by now"), std::string::npos) << lines[1];
}

TEST(Progress, WhatHangsIsNotSaidAgainWhenItsRowIsDurable) {
  const Config config = config_of(3);
  const EventRow late{7, 5, EventKind::late, 0, -1, 3, "storage: syncing /x"};
  EXPECT_TRUE(lines_of({{1, late}}, config).empty());
}

TEST(EventLine, SaysWhenToWhomWhatHappenedAndWhatItCost) {
  EXPECT_EQ(event_line({1.334, 212, EventKind::kill, 2, -1, 0, "peer 2 was lost"}),
            "     1.33 s  step 212     peer 2              kill        peer 2 was lost");
  EXPECT_EQ(event_line({12.5, 212, EventKind::migrate, 4, 1, 0, ""}),
            "    12.50 s  step 212     peer 4    stage 1   migrate");
  EXPECT_EQ(event_line({0, -1, EventKind::leader, 0, -1, 0, "term 1"}),
            "     0.00 s               peer 0              leader      term 1");
  EXPECT_EQ(event_line({1.3, 212, EventKind::repair, 0, -1, 0.0123, "2 microbatches sent again"}),
            "     1.30 s  step 212     peer 0              repair      2 microbatches sent again, "
            "12 ms");
  EXPECT_EQ(event_line({7, 5, EventKind::checkpoint, 0, -1, 1.26, ""}),
            "     7.00 s  step 5       peer 0              checkpoint  1.3 s");
}

TEST(EventLine, PutsTheDetailOnLinesOfItsOwnWhereItsLineWouldBeTooLong) {
  const EventRow repair{1.3, 212, EventKind::repair, 0, -1, 0.0123, "2 microbatches sent again"};
  EXPECT_EQ(event_line(repair, 79),
            "     1.30 s  step 212     peer 0              repair\n"
            "             2 microbatches sent again, 12 ms");
  EXPECT_EQ(event_line(repair, 40),
            "     1.30 s  step 212     peer 0              repair\n"
            "             2 microbatches sent again,\n"
            "             12 ms")
      << "the head is not broken";
  EXPECT_EQ(event_line(repair, 100), event_line(repair));
}

}  // namespace
}  // namespace swarmpi::progress_test
