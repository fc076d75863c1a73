#include "commands/train/banner.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace swarmpi::banner_test {
namespace {

View view_of(const std::vector<std::set<std::int32_t>>& members) {
  View view;
  for (std::size_t peer = 0; peer < members.size(); ++peer) {
    const PeerId id(static_cast<std::int32_t>(peer));
    view.add(id);
    for (const std::int32_t stage : members[peer]) view.serve(id, StageId(stage));
  }
  return view;
}

View dealt(std::int32_t peers, std::int32_t stages) {
  std::vector<std::set<std::int32_t>> members;
  for (std::int32_t peer = 0; peer < peers; ++peer) members.push_back({peer % stages});
  return view_of(members);
}

std::string banner_for(const BannerPeers& peers, std::size_t columns = 80) {
  Config config;
  config.output.checkpoint_every = 500;
  return start_banner(config, std::vector<StageSpec>(3), StartPoint{}, "0123456789abcdef", peers,
                      columns);
}

/// The text of a paragraph that was broken into lines.
std::string in_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string line, word;
  while (words >> word) line += (line.empty() ? "" : " ") + word;
  return line;
}

void expect_says(const std::string& text, const std::string& words) {
  EXPECT_NE(in_one_line(text).find(words), std::string::npos) << words << "\n" << text;
}

TEST(Banner, OfOnePeerSaysWhatAKillCosts) {
  const std::string text = banner_for({});
  expect_says(text, "swarm 3 stages on 1 peer compute");
  expect_says(
      text,
      "a kill costs the steps since the last checkpoint (one every 500 steps, and every 600 "
      "s)");
  expect_says(text, "INT, TERM or USR1");
}

TEST(Banner, SaysHowMuchIsLostWithTheRun) {
  Config config;
  const auto banner = [&] {
    return start_banner(config, std::vector<StageSpec>(1), StartPoint{}, "0123456789abcdef", {},
                        80);
  };
  expect_says(banner(), "(one every 600 s)");
  config.output.checkpoint_every_s = 0;
  expect_says(banner(), "all steps (checkpoints are written at the end");
}

TEST(Banner, SaysWhatIsResumed) {
  Config config;
  StartPoint start;
  const auto banner = [&] {
    return start_banner(config, std::vector<StageSpec>(1), start, "0123456789abcdef", {}, 80);
  };
  start.state.step = 40;
  expect_says(banner(), "start resumes after step 40 of 100");
  start = {};
  start.found_empty = "runs/mine/RUN.checkpoints";
  expect_says(banner(),
              "there is no checkpoint in runs/mine/RUN.checkpoints yet: begins at step 0");
  start.begins_again = true;
  expect_says(banner(), "yet: the unfinished run begins anew at step 0");
}

TEST(Banner, WarnsOfNoticesThatComeTooLate) {
  Config config;
  const auto banner = [&](double notice_s) {
    config.swarm.notice_s = notice_s;
    return start_banner(config, std::vector<StageSpec>(1), StartPoint{}, "0123456789abcdef", {},
                        80);
  };
  expect_says(banner(0.5), "WARNING swarm.notice_s = 0.5 is too short: the leader waits 1 s");
  for (const double notice_s : {0.0, 1.0, 30.0}) {
    EXPECT_EQ(banner(notice_s).find("WARNING"), std::string::npos) << notice_s;
  }
}

TEST(Banner, OfASwarmSaysWhoServesWhatAndWhatMpiSurvives) {
  const std::string text =
      banner_for({view_of({{0}, {1}, {2}, {0}, {}}), 2, "a lost rank ends it"});
  expect_says(
      text,
      "swarm 3 stages on 4 peers and 1 spare on 2 hosts; peers by stage: 0,3 | 1 | 2 compute");
  expect_says(text, "survival a lost rank ends it. What ends the run costs the steps since");
  expect_says(text, "USR1 to mpirun");
}

TEST(Banner, OfStaticPipelinesSaysWhatADeathCosts) {
  Config config;
  config.swarm.method = Method::gpipe;
  config.faults.mtbf_s = 100;
  const BannerPeers peers = banner_peers(config, dealt(4, 2), {"a", "a", "a", "a"}, true);
  const std::string text =
      start_banner(config, std::vector<StageSpec>(2), StartPoint{}, "0123456789abcdef", peers, 80);
  expect_says(text,
              "is killed, and sends all back to the last checkpoint (swarm.method = \"gpipe\")");
  expect_says(text, "since the last checkpoint (as often as deaths are to be expected)");
}

TEST(Banner, FitsTheTerminal) {
  const BannerPeers peers = {dealt(16, 3), 1, "reports lost ranks"};
  for (const std::size_t columns : {60u, 80u, 100u}) {
    std::istringstream lines(banner_for(peers, columns));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), columns) << line;
  }
}

TEST(ServingText, ListsThePeersOfEachStage) {
  EXPECT_EQ(serving_text(view_of({{0}, {0}, {0}, {1}})), "peers by stage: 0-2 | 3");
  EXPECT_EQ(serving_text(view_of({{0, 1}, {2, 3}})), "peers by stage: 0 | 0 | 1 | 1");
}

TEST(ServingText, CountsWhereAListGetsLong) {
  EXPECT_EQ(serving_text(dealt(64, 16)), "4 peers for each stage");
  EXPECT_EQ(serving_text(dealt(66, 16)), "5+5+4+4+4+4+4+4+4+4+4+4+4+4+4+4 peers for the stages");
  EXPECT_EQ(serving_text(dealt(300, 128)), "2 to 3 peers for each stage");
}

}  // namespace
}  // namespace swarmpi::banner_test
