#include "torture/rules/collective_entries.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/collective_port.hpp"
#include "protocol/messages/collectives.hpp"
#include "protocol/messages/seal.hpp"

namespace swarmpi::collective_entries_test {
namespace {

const ViewNumber kView{Term(1), 3};
const SealId kSeal{Incarnation(0), Term(1), 5};

SealMessage sealed(std::optional<ViewNumber> collective) {
  StageSeal seal;
  seal.stage = StageId(2);
  seal.seal = kSeal;
  seal.replicas = {PeerId(1), PeerId(4)};
  seal.collective = collective;
  return {Step(7), {seal}, false, nullptr};
}

struct Seen {
  void says(std::int32_t peer, CollectiveNews news, const ViewNumber& view = kView) {
    rule.says(PeerId(peer), {view, StageId(2), news, Step(7), kSeal, ""});
  }
  std::string enters() { return rule.enters(0, PeerId(1), {StageId(2), kView, Step(7), kSeal, 1}); }
  CollectiveEntries rule;
};

TEST(CollectiveEntries, AllHaveMadeTheCollectiveOfTheViewThatIsSealed) {
  Seen seen;
  seen.says(1, CollectiveNews::ready);
  seen.says(4, CollectiveNews::ready, {Term(1), 2});
  EXPECT_EQ(seen.rule.seals(sealed(kView)),
            "stage 2 is sealed for a collective that not all replicas have made");
  seen.says(4, CollectiveNews::ready);
  EXPECT_EQ(seen.rule.seals(sealed(kView)), "");
  EXPECT_EQ(seen.rule.seals(sealed({})), "a seal of stage 2 changes its way");
}

TEST(CollectiveEntries, NobodyEntersBeforeAllHaveFrozen) {
  Seen seen;
  for (const std::int32_t peer : {1, 4}) seen.says(peer, CollectiveNews::ready);
  EXPECT_EQ(seen.rule.seals(sealed(kView)), "");
  seen.says(1, CollectiveNews::frozen);
  EXPECT_EQ(seen.enters(), "a collective of stage 2 is entered before all have frozen");
  seen.says(4, CollectiveNews::frozen);
  EXPECT_EQ(seen.enters(), "");
}

TEST(CollectiveEntries, OneThatHangsWithoutAWordIsARepairsCause) {
  Seen seen;
  seen.enters();
  seen.rule.aborts(10, PeerId(1), {StageId(2), kView, ""});
  EXPECT_TRUE(seen.rule.hung(10.5, 3));
  EXPECT_FALSE(seen.rule.hung(20, 3)) << "long ago";
  seen.rule.enters(20, PeerId(1), {StageId(2), kView, Step(7), kSeal, 1});
  seen.rule.aborts(21, PeerId(1), {StageId(2), kView, ""});
  EXPECT_FALSE(seen.rule.hung(21, 3)) << "it was ended at once";
}

}  // namespace
}  // namespace swarmpi::collective_entries_test
