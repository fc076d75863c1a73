#include "torture/swarm_check.hpp"

#include <gtest/gtest.h>

#include <set>

namespace swarmpi::swarm_check_test {
namespace {

TEST(Torture, WhoeverDiesTheBitsAreTheSame) {
  std::size_t deaths = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const RandomSwarm swarm = draw_tortured_swarm(mix_bits(seed));
    const SwarmVerdict verdict = check_swarm(swarm);
    EXPECT_EQ(verdict.violation, "") << "seed " << swarm.seed << ": " << swarm.text();
    deaths += verdict.deaths.size();
  }
  EXPECT_GT(deaths, 400u);
}

// Those whose boundaries are coded are there for what is sent again, and for what is computed
// again.
TEST(Torture, HalfOfTheCodedSwarmsAreRepairedAndRecompute) {
  std::int64_t coded = 0, both = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const SwarmVerdict verdict = check_torture(mix_bits(seed), {.real = true});
    EXPECT_EQ(verdict.violation, "") << "seed " << mix_bits(seed);
    if (!verdict.keeps_its_cuts) continue;
    ++coded;
    both += verdict.repairs > 0 && verdict.recomputed > 0 ? 1 : 0;
  }
  EXPECT_GT(coded, 20);
  EXPECT_GT(2 * both, coded);
}

// A leader whose term was over led again, and wrote the rows that storage had refused: the referee
// missed those of the first term.
TEST(Torture, RowsThatStorageRefusesAsItsTermIsOverMayBeWrittenInALaterTerm) {
  TortureRules rules;
  rules.delayed = false;
  rules.faults = {.joins = true, .shadows = true, .cuts = false};
  EXPECT_EQ(check_torture(3505967572301999274, rules).violation, "");
}

// A peer that a leader of a higher id had left out, for it had not heard of it, joined again: all
// sent their tables to it, the lowest, while the other led.
TEST(Torture, APeerOfALowerIdThatJoinsAgainLeads) {
  TortureRules rules;
  rules.faults = {.joins = true, .shadows = true, .cuts = true};
  for (const bool delayed : {false, true}) {
    rules.delayed = delayed;
    EXPECT_EQ(check_torture(14705126981024582434ULL, rules).violation, "");
  }
}

// A released peer did not hear of it, as its link was cut, nor of newcomers that had been let in
// since: it led alone, against them, and stopped the run.
TEST(Torture, AReleasedPeerThatLeadsInquiresOfNewcomers) {
  TortureRules rules;
  rules.delayed = true;
  rules.faults = {.joins = true, .shadows = false, .cuts = true};
  EXPECT_EQ(check_torture(10130078548070595171ULL, rules).violation, "");
}

// All peers of the start died, and the newcomer with the lowest id waited for a view for ever.
TEST(Torture, ANewcomerWithoutAViewLeadsWhereAMemberTakesItForTheLeader) {
  TortureRules rules;
  rules.delayed = false;
  rules.faults = {.joins = true, .shadows = false, .cuts = false};
  EXPECT_EQ(check_torture(13655066858801097597U, rules).violation, "");
}

// The disk was full; the leader that said so died, the next one died while it let the others go.
// One had gone, of which those that were left could not know.
TEST(Torture, WhoIsLeftBehindByAnEndWithoutAMarkEndsToo) {
  TortureRules rules;
  rules.delayed = true;
  rules.faults = {.joins = true, .shadows = true, .cuts = false};
  EXPECT_EQ(check_torture(3977753586089373626ULL, rules).violation, "");
}

// All were asked to leave; of two leaders at a time one had a term between two of the other, and
// had published nothing: all went back, though nobody had been lost.
TEST(Torture, ALeaderThatNobodyHeardOfMayCostAPipelineSteps) {
  TortureRules rules;
  rules.faults.pipelines = true;
  EXPECT_EQ(check_torture(8850614512025701596ULL, rules).violation, "");
}

TEST(Torture, WhoeverDiesTheBitsOfRealKernelsAreTheSame) {
  TortureRules rules;
  rules.real = true;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const RandomSwarm swarm = draw_tortured_swarm(mix_bits(seed), rules);
    EXPECT_EQ(check_swarm(swarm).violation, "") << "seed " << swarm.seed << ": " << swarm.text();
  }
}

TEST(Torture, OneSeedIsOneRun) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const SwarmVerdict first = check_torture(seed), again = check_torture(seed);
    EXPECT_EQ(first.events, again.events);
    EXPECT_EQ(first.injected, again.injected);
  }
}

TEST(Torture, UpdatesAreDelayedWhereTheRulesSaySo) {
  std::set<Updates> drawn;
  TortureRules all;
  TortureRules none;
  all.delayed = true;
  none.delayed = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    drawn.insert(draw_tortured_swarm(seed).plan.train.updates);
    EXPECT_EQ(draw_tortured_swarm(seed, all).plan.train.updates, Updates::delayed);
    EXPECT_EQ(draw_tortured_swarm(seed, none).plan.train.updates, Updates::synchronous);
  }
  EXPECT_EQ(drawn.size(), 2u);
}

TEST(Torture, NewcomersAndShadowsComeWhereTheRulesSaySo) {
  TortureRules all;
  TortureRules none;
  all.faults = {true, true, true};
  none.faults = {false, false, false};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const RandomSwarm with = draw_tortured_swarm(seed, all);
    EXPECT_FALSE(with.joins.empty());
    EXPECT_GT(with.plan.swarm.shadows, 0);
    EXPECT_GE(static_cast<std::int64_t>(with.membership.spares.size()), with.plan.swarm.shadows);
    EXPECT_TRUE(with.faults.all.empty() || with.faults.has_silence());
    const RandomSwarm without = draw_tortured_swarm(seed, none);
    EXPECT_TRUE(without.joins.empty());
    EXPECT_EQ(without.plan.swarm.shadows, 0);
  }
}

TEST(Torture, StaticPipelinesComeWhereTheRulesSaySo) {
  TortureRules all;
  TortureRules drawn;
  all.faults.pipelines = true;
  drawn.faults.pipelines.reset();
  std::set<Method> methods;
  int some = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const RunPlan& plan = draw_tortured_swarm(mix_bits(seed), all).plan;
    methods.insert(plan.swarm.method);
    EXPECT_EQ(plan.train.updates, Updates::synchronous);
    EXPECT_FALSE(draw_tortured_swarm(mix_bits(seed)).plan.swarm.has_pipelines());
    some += draw_tortured_swarm(mix_bits(seed), drawn).plan.swarm.has_pipelines() ? 1 : 0;
  }
  EXPECT_GE(methods.size(), 3u);
  EXPECT_GT(some, 0);
  EXPECT_LT(some, 30);
}

// A core that does not recover is one that torture must find.
TEST(Torture, FindsACoreThatDoesNotRecover) {
  std::int64_t found = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    TortureRules rules;
    rules.faults.cuts = false;  // one between two peers might go unnoticed
    RandomSwarm swarm = draw_tortured_swarm(mix_bits(seed), rules);
    swarm.plan.recovers = false;
    // A notice stops such a swarm, and comes again to each that resumes it.
    std::erase_if(swarm.faults.all,
                  [](const Fault& fault) { return fault.kind == Fault::Kind::notice; });
    swarm.stop.reset();
    swarm.joins.clear();
    const SwarmVerdict verdict = check_swarm(swarm);
    // A death at the very end may go unnoticed.
    if (verdict.deaths.empty()) {
      EXPECT_EQ(verdict.violation, "");
    }
    if (!verdict.violation.empty()) ++found;
  }
  EXPECT_GT(found, 15);
}

}  // namespace
}  // namespace swarmpi::swarm_check_test
