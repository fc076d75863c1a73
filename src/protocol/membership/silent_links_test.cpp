#include "protocol/membership/silent_links.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <vector>

namespace swarmpi::silent_links_test {
namespace {

using Pairs = std::vector<std::pair<std::int32_t, std::int32_t>>;

const auto kAllAreHeard = [](PeerId) { return true; };

// These pairs report every second, up to this time. Whoever is pinged answers, but for `stopped`.
void report(SilentLinks& links, const Pairs& pairs, double first_s, double last_s,
            const std::set<PeerId>& stopped = {}) {
  for (double now_s = first_s; now_s <= last_s; ++now_s) {
    for (const auto& [from, other] : pairs) {
      for (const PeerId peer : links.reported(PeerId(from), PeerId(other), now_s)) {
        if (!stopped.contains(peer)) links.answered(peer, now_s);
      }
    }
  }
}

// Whose links are worst, where the leader hears all.
std::optional<PeerId> worst_of(SilentLinks& links, double now_s) {
  const auto worst = links.worst(now_s, kAllAreHeard);
  return worst ? std::optional(worst->peer) : std::nullopt;
}

TEST(SilentLinks, OfTwoPeersTheHigherIdIsWorst) {
  SilentLinks links(1, 1.5, 0);
  EXPECT_FALSE(links.worst(0, kAllAreHeard));
  report(links, {{5, 2}, {2, 5}}, 0, 2);
  EXPECT_EQ(worst_of(links, 2.1), PeerId(5));
}

// The other hears it: it does not report.
TEST(SilentLinks, OfTwoThatHearEachOtherOneWayOnlyTheOneThatDoesNotHearIsWorst) {
  SilentLinks links(1, 1.5, 0);
  report(links, {{2, 5}}, 0, 2);
  EXPECT_EQ(worst_of(links, 2.1), PeerId(2));
}

TEST(SilentLinks, ThePeerThatMostDoNotHearIsWorst) {
  SilentLinks links(1, 1.5, 0);
  report(links, {{4, 3}, {6, 3}, {7, 3}}, 0, 2);
  EXPECT_EQ(worst_of(links, 2.1), PeerId(3));
  const std::set<SilentLinks::Link> all{
      {PeerId(3), PeerId(4)}, {PeerId(3), PeerId(6)}, {PeerId(3), PeerId(7)}};
  EXPECT_EQ(links.worst(2.1, kAllAreHeard)->links, all);
  links.forget(PeerId(3));
  EXPECT_FALSE(links.worst(2.1, kAllAreHeard));
}

// Reports do not overtake, and come late where the line is busy.
TEST(SilentLinks, AReportCountsForTwoPeriodsAtLeast) {
  SilentLinks links(1, 0.3, 0);
  report(links, {{5, 2}}, 0, 2);
  EXPECT_EQ(worst_of(links, 3.9), PeerId(5));
  EXPECT_FALSE(worst_of(links, 4.1));
}

// All its links were cut at the same time, but each of the others pinged it when that was due.
TEST(SilentLinks, ThePeerThatMostDoNotHearIsWorstThoughTheyReportOneAfterTheOther) {
  SilentLinks links(1, 1.5, 3);
  Pairs pairs{{4, 3}};
  report(links, pairs, 0, 2);
  EXPECT_FALSE(worst_of(links, 2.1)) << "another link of one of them may be cut as well";
  pairs.emplace_back(6, 3);
  report(links, pairs, 3, 5);
  EXPECT_EQ(worst_of(links, 5.1), PeerId(3));
}

TEST(SilentLinks, ThePeerAtTheOnlyLinkThatIsCutIsWorstOnceNoOtherWillBeReported) {
  SilentLinks links(1, 1.5, 3);
  report(links, {{4, 3}}, 0, 3);
  EXPECT_FALSE(worst_of(links, 3.9));
  report(links, {{4, 3}}, 4, 4);
  EXPECT_EQ(worst_of(links, 4.1), PeerId(4));
}

TEST(SilentLinks, OneReportProvesNothing) {
  SilentLinks links(1, 1.5, 0);
  report(links, {{1, 2}}, 0, 0);
  EXPECT_FALSE(links.worst(0.9, kAllAreHeard));
  report(links, {{1, 2}}, 5, 6);
  EXPECT_FALSE(links.worst(6.5, kAllAreHeard)) << "the old report is not valid any more";
}

TEST(SilentLinks, ALinkThatIsNotReportedAnyMoreIsNotCut) {
  SilentLinks links(1, 1.5, 0);
  report(links, {{1, 2}}, 0, 5);
  EXPECT_TRUE(links.worst(6, kAllAreHeard));
  EXPECT_FALSE(links.worst(7.1, kAllAreHeard));
}

TEST(SilentLinks, TheLinkOfAPeerThatTheLeaderDoesNotHearIsNotCut) {
  SilentLinks links(1, 1.5, 0);
  report(links, {{1, 2}}, 0, 5);
  EXPECT_FALSE(links.worst(5, [](PeerId peer) { return peer != PeerId(1); }));
  EXPECT_FALSE(links.worst(5, kAllAreHeard)) << "the reports were dropped, and begin anew";
}

// It is stopped, or one end is. Messages of it may come, for they have waited.
TEST(SilentLinks, APeerThatDoesNotAnswerTheLeaderProvesNothing) {
  for (const std::int32_t stopped : {1, 2}) {
    SilentLinks links(1, 1.5, 0);
    report(links, {{1, 2}}, 10, 20, {PeerId(stopped)});
    EXPECT_FALSE(links.worst(20, kAllAreHeard));
  }
}

// It answers what has waited, also of the other end, and is stopped again at once.
TEST(SilentLinks, APeerThatAnswersOnceProvesNothing) {
  SilentLinks links(1, 1.5, 0);
  report(links, {{1, 2}}, 10, 10);
  report(links, {{1, 2}}, 11, 20, {PeerId(2)});
  EXPECT_FALSE(links.worst(20, kAllAreHeard));
}

TEST(SilentLinks, AnAnswerToAnOlderPingIsNone) {
  SilentLinks links(1, 1.5, 0);
  for (double now_s = 10; now_s < 20; ++now_s) {
    links.reported(PeerId(1), PeerId(2), now_s);
    for (const std::int32_t peer : {1, 2}) links.answered(PeerId(peer), 9);
  }
  EXPECT_FALSE(links.worst(19, kAllAreHeard));
}

TEST(SilentLinks, ReportsThatComeAllAtOnceProveNothing) {
  SilentLinks links(1, 1.5, 0);
  for (int i = 0; i < 9; ++i) report(links, {{1, 2}}, 10, 10);
  EXPECT_FALSE(links.worst(11.4, kAllAreHeard));
}

}  // namespace
}  // namespace swarmpi::silent_links_test
