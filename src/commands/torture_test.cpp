#include "commands/torture.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "torture/tally.hpp"

namespace swarmpi::torture_test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TortureCommand, SaysFirstWhatItNeedsToBeRepeatedAndLastWhatCameOfIt) {
  TortureOptions options;
  options.schedules = 20;
  options.seed = 7;
  options.with = {"delayed"};
  std::ostringstream out, again;
  EXPECT_EQ(run_torture(options, out), ExitStatus::good) << out.str();
  const std::string first = out.str().substr(0, out.str().find('\n'));
  EXPECT_TRUE(contains(first, "with delayed, 20 schedules, seed 7")) << first;
  EXPECT_TRUE(contains(out.str(), "\n20 schedules, ")) << out.str();
  EXPECT_TRUE(contains(out.str(), " 0 failed; ")) << out.str();
}

TEST(TortureCommand, PrintsAllThatItCountedForRecords) {
  TortureOptions options;
  options.schedules = 30;
  options.seed = 7;
  options.json = true;
  std::ostringstream out;
  EXPECT_EQ(run_torture(options, out), ExitStatus::good) << out.str();
  const std::string last = out.str().substr(out.str().rfind("\n{") + 1);
  EXPECT_TRUE(contains(last, "\"figures\":{\"schedules\":30,")) << last;
  for (const char* name : {"failed_schedules", "jobs_hung", "moves_kept_both", "schedules_coded"})
    EXPECT_TRUE(contains(last, name)) << last;
}

TEST(TortureCommand, StaticPipelinesHaveNeitherDelayedUpdatesNorShadows) {
  TortureOptions options;
  options.with = {"pipelines", "delayed"};
  EXPECT_TRUE(contains(torture_rules(options).status().message(), "have no delayed"));
  options.with = {"pipelines", "cuts"};
  EXPECT_TRUE(torture_rules(options).value().faults.pipelines.value());
}

TEST(TortureCommand, CollectivesAddUpSumsThatAllReplicasHave) {
  TortureOptions options;
  options.with = {"collectives", "owners"};
  EXPECT_TRUE(contains(torture_rules(options).status().message(), "no collectives"));
  options.with = {"collectives"};
  EXPECT_TRUE(torture_rules(options).value().faults.collectives.value());
  options.real = true;
  EXPECT_TRUE(torture_rules(options).value().real);
}

TEST(TortureCommand, ReplaysOneByItsSeed) {
  TortureOptions options;
  options.replay = 11;
  std::ostringstream out;
  EXPECT_EQ(run_torture(options, out), ExitStatus::good) << out.str();
  EXPECT_TRUE(contains(out.str(), "schedule 11\n"));
  EXPECT_TRUE(contains(out.str(), draw_tortured_swarm(11).text()));
  EXPECT_TRUE(contains(out.str(), "passed"));
}

TEST(TortureCommand, AFreshSeedIsAnotherOneEachTime) {
  TortureOptions options;
  options.schedules = 0;
  std::ostringstream out, again;
  EXPECT_EQ(run_torture(options, out), ExitStatus::good);
  EXPECT_EQ(run_torture(options, again), ExitStatus::good);
  EXPECT_NE(out.str().substr(0, out.str().find('\n')),
            again.str().substr(0, again.str().find('\n')));
}

TEST(TortureTally, CountsDeathsByWhatTheyCost) {
  TortureTally tally;
  SwarmVerdict verdict;
  verdict.events = 100;
  verdict.deaths = {{PeerId(0), true, 3, 3}, {PeerId(2), false, 1, 4}};
  tally.add(verdict);
  verdict = {};
  verdict.violation = "wrong";
  tally.add(verdict);
  const std::string text = tally.summary(2);
  EXPECT_TRUE(
      contains(text, "2 schedules, 2 deaths, 1 of leaders, 0 resumed, 0 diverged, 1 failed"))
      << text;
  EXPECT_TRUE(contains(text, "60 schedules a minute, 50 events each")) << text;
  EXPECT_TRUE(contains(text, "3.50 repeated microbatch-stages; 2.00 were")) << text;
  EXPECT_TRUE(contains(text, "same 50.0 %")) << text;
  EXPECT_TRUE(contains(text, "+2..4 50.0 %")) << text;
}

}  // namespace
}  // namespace swarmpi::torture_test
