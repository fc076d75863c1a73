#include "commands/train/preemption.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "hardware/preemption_model.hpp"
#include "io/test_support.hpp"

namespace swarmpi::preemption_test {
namespace {

class PreemptionTest : public testing::Test {
 protected:
  PreemptionTest() {
    config_.faults.mode = FaultsMode::kill;
    config_.faults.trace = folder_ / "t.csv";
  }
  std::vector<TraceEvent> of(std::int32_t peer, const RunPart& part = {4}) {
    return preemption_of(config_, peer, part).value().local_events;
  }
  std::string refusal(const std::string& trace) {
    write(trace);
    return preemption_of(config_, 0, {4}).status().message();
  }
  void write(const std::string& trace) { std::ofstream(folder_ / "t.csv") << trace; }

  TestFolder folder_;
  Config config_;
};

TEST_F(PreemptionTest, APeerHearsOfItsOwn) {
  write("2,kill,1\n1,notice,1\n3,kill,2\n");
  EXPECT_EQ(of(1), (std::vector<TraceEvent>{{1, FaultEvent::notice, 1}, {2, FaultEvent::kill, 1}}));
  EXPECT_TRUE(of(0).empty());
}

TEST_F(PreemptionTest, ANoticeComesBeforeEachKill) {
  write("2,kill,1\n");
  config_.swarm.notice_s = 0.5;
  EXPECT_EQ(of(1),
            (std::vector<TraceEvent>{{1.5, FaultEvent::notice, 1}, {2, FaultEvent::kill, 1}}));
}

TEST_F(PreemptionTest, DeathsComeAsOftenAsTheTraceAndTheFailuresOfPeersSay) {
  write("10,kill,1\n20,notice,2\n100,kill,2\n");
  const auto gap_s = [&](const RunPart& part) {
    return between_deaths_s(preemption_of(config_, 0, part).value(), config_.faults, 4);
  };
  EXPECT_EQ(gap_s({4}), 50);
  EXPECT_EQ(gap_s({4, 60, 2}), 50) << "whatever is left of it after a resume";
  config_.faults.mtbf_s = 200;
  EXPECT_EQ(gap_s({4}), 25) << "one of four peers each 50 s more";
  config_.faults.trace.clear();
  EXPECT_EQ(gap_s({4}), 50);
  config_.faults.mtbf_s = 0;
  EXPECT_EQ(gap_s({4}), 0);
}

TEST_F(PreemptionTest, WhatWasBeforeTheResumeIsOver) {
  write("2,kill,1\n9,kill,1\n");
  config_.swarm.notice_s = 5;
  EXPECT_EQ(of(1, {4, 7, 2}),
            (std::vector<TraceEvent>{{7, FaultEvent::notice, 1}, {9, FaultEvent::kill, 1}}));
}

TEST_F(PreemptionTest, FailuresAreDrawnAnewForEachPartOfARun) {
  config_.faults.trace.clear();
  config_.faults.mtbf_s = 100;
  double sum_s = 0;
  for (std::int32_t peer = 0; peer < 1000; ++peer) sum_s += of(peer, {1000, 7, 2}).at(0).time_s - 7;
  EXPECT_NEAR(sum_s / 1000, 100, 10);
  EXPECT_EQ(of(3, {4, 0, 1}), of(3, {4, 0, 1}));
  EXPECT_NE(of(3, {4, 0, 1}), of(3, {4, 0, 2}));
}

TEST_F(PreemptionTest, EmulatedPeersLiveAtARankOneAfterAnother) {
  config_.faults.mode = FaultsMode::emulated;
  write("1,kill,2\n2,join,4\n3,stop,4\n4,continue,4\n5,kill,4\n");
  EXPECT_EQ(of(2), (std::vector<TraceEvent>{{1, FaultEvent::kill, 2},
                                            {2, FaultEvent::join, 4},
                                            {3, FaultEvent::stop, 4},
                                            {4, FaultEvent::go_on, 4},
                                            {5, FaultEvent::kill, 4}}));
  EXPECT_TRUE(of(0).empty());
  const Preemption of_another = preemption_of(config_, 0, {4}).value();
  EXPECT_EQ(of_another.joins, (std::vector<TraceEvent>{{2, FaultEvent::join, 4}}));
  EXPECT_EQ(of_another.placement.at(4), 2);
}

TEST_F(PreemptionTest, AfterAResumeNobodyComesToARankThatIsTaken) {
  config_.faults.mode = FaultsMode::emulated;
  write("1,kill,2\n5,join,4\n6,kill,4\n7,kill,3\n8,join,5\n");
  EXPECT_TRUE(of(2, {4, 3, 2}).empty());
  EXPECT_EQ(of(3, {4, 3, 2}),
            (std::vector<TraceEvent>{{7, FaultEvent::kill, 3}, {8, FaultEvent::join, 5}}));
}

TEST_F(PreemptionTest, NewcomersFailTooWhereFailuresAreDrawn) {
  config_.faults.mode = FaultsMode::emulated;
  config_.faults.mtbf_s = 1e-6;
  write("1,kill,2\n2,join,4\n");
  const std::vector<TraceEvent> events = of(2);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events.back().event, FaultEvent::kill);
  EXPECT_EQ(events.back().peer, 4);
  EXPECT_NEAR(events.back().time_s, 2, 1e-3);
}

TEST_F(PreemptionTest, WhatARunCannotDoIsRefused) {
  EXPECT_NE(refusal("1,join,7\n").find("supports kill and notice, not join (at 1 s)"),
            std::string::npos);
  EXPECT_NE(refusal("1,kill,4\n").find("there is no peer 4 among 4 ranks (kill at 1 s)"),
            std::string::npos);
  config_.faults.mode = FaultsMode::emulated;
  EXPECT_NE(refusal("1,flip,1\n").find("stop, continue, cut and heal, not flip (at 1 s)"),
            std::string::npos);
  EXPECT_NE(refusal("1,join,7\n").find("t.csv: at 1 s peer 7 joins, and no rank is free"),
            std::string::npos);
  EXPECT_NE(refusal("1,kill\n").find("t.csv:1: expected time_s,event,peer"), std::string::npos);
  config_.faults.trace = folder_ / "none.csv";
  EXPECT_EQ(preemption_of(config_, 0, {4}).status().code(), ExitStatus::bad_input);
}

TEST_F(PreemptionTest, WhatCannotHappenInOneGoIsRefused) {
  config_.faults.mode = FaultsMode::emulated;
  const std::string path = folder_ / "t.csv";
  EXPECT_EQ(refusal("time_s,event,peer\n9,kill,1\n\n2,kill,1\n"),
            "faults.trace: " + path +
                ":2: kill of peer 1 at 9 s: it has died at 2 s: leave the line out");
  EXPECT_EQ(refusal("1,stop,2\n2,continue,3\n"),
            "faults.trace: " + path +
                ":2: continue of peer 3 at 2 s: there is no stop before it: leave the line out");
  EXPECT_EQ(refusal("1,stop,2\n2,heal,2\n"),
            "faults.trace: " + path +
                ":2: heal of peer 2 at 2 s: there is no cut before it: leave the line out");
  EXPECT_NE(refusal("1,cut,2\n2,heal,2\n3,heal,2\n").find(":3: heal of peer 2"), std::string::npos);
  EXPECT_EQ(refusal("1,stop,2\n1,cut,2\n2,continue,2\n2,heal,2\n3,stop,2\n4,continue,2\n"), "");
  EXPECT_EQ(refusal("1,cut,2\n2,kill,2\n3,heal,2\n"), "") << "links outlive a peer";
  write("2,kill,1\n9,kill,1\n");
  EXPECT_TRUE(preemption_of(config_, 1, {4, 7, 2}).ok()) << "the rank has another peer by then";
  EXPECT_FALSE(preemption_of_all(config_, 4).ok()) << "virtual time knows no resumes";
}

TEST_F(PreemptionTest, AByteOrderMarkIsPassedOver) {
  write("\xEF\xBB\xBFtime_s,event,peer\r\n2,kill,1\r\n");
  EXPECT_EQ(of(1), (std::vector<TraceEvent>{{2, FaultEvent::kill, 1}}));
  write(
      "\xEF\xBB\xBF"
      "2,kill,1\n");
  EXPECT_EQ(of(1).size(), 1u);
  EXPECT_NE(refusal("2,kill,1\n\xEF\xBB\xBF"
                    "3,kill,2\n")
                .find("t.csv:2: the time"),
            std::string::npos);
}

TEST_F(PreemptionTest, WhatIsMadeUpCanHappen) {
  config_.faults.mode = FaultsMode::emulated;
  using Kind = TraceModel::Kind;
  for (const Kind kind : {Kind::poisson, Kind::diurnal, Kind::burst}) {
    for (const double return_s : {0.0, 30.0, 3600.0}) {
      for (std::uint64_t seed = 0; seed < 30; ++seed) {
        write(trace_text(make_trace({kind, 20, 48, 3600, return_s, seed})));
        const auto events = preemption_of_all(config_, 20);
        ASSERT_TRUE(events.ok()) << int(kind) << " " << seed << events.status().message();
      }
    }
  }
}

TEST_F(PreemptionTest, TheTraceOfTheInputsCanHappen) {
  config_.faults.mode = FaultsMode::emulated;
  config_.faults.trace = SWARMPI_SOURCE_DIR "/inputs/simulate/thousand.csv";
  const auto events = preemption_of_all(config_, 1000);
  EXPECT_TRUE(events.ok()) << events.status().message();
}

}  // namespace
}  // namespace swarmpi::preemption_test
