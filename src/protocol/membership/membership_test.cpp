#include "protocol/membership/membership.hpp"

#include <gtest/gtest.h>

#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::membership_test {
namespace {

const RunPlan kPlan = testing::tiny_plan(1, 2);

// Of a run of peers 0, 1 and 2 with spare 3.
Membership membership(std::int32_t self) {
  return {PeerId(self), {{PeerId(0), PeerId(1), PeerId(2)}, {PeerId(3)}, Term(1)}, kPlan};
}

ViewRef view_of(std::int64_t number, const std::vector<std::int32_t>& peers) {
  View view;
  view.number = {Term(1), number};
  for (const std::int32_t peer : peers) view.add(PeerId(peer));
  return share(std::move(view));
}

TEST(Membership, ThePeersOfTheStartAreMembersBeforeAnyView) {
  const Membership known = membership(1);
  EXPECT_EQ(known.view(), nullptr);
  EXPECT_EQ(known.view_number(), ViewNumber());
  EXPECT_TRUE(known.contains(PeerId(3)));
  EXPECT_TRUE(known.newest_view()->serves(PeerId(2), StageId(0)));
}

TEST(Membership, TheLivePeerWithTheLowestIdLeads) {
  Membership known = membership(1);
  EXPECT_EQ(known.leader(), PeerId(0));
  EXPECT_TRUE(known.lost(PeerId(0)));
  EXPECT_FALSE(known.lost(PeerId(0))) << "no news";
  EXPECT_TRUE(known.leads());
  known.adopt(view_of(2, {0, 1, 3}));
  EXPECT_TRUE(known.leads()) << "the view is older than the death";
}

// Who comes before the one that has shown that it can store may share the disk that hangs.
TEST(Membership, WhoComesBeforeTheOneThatItHandsOverToIsPassedOver) {
  Membership known = membership(0);
  const LeadingOrder order = known.abstain(PeerId(2));
  for (const std::int32_t peer : {0, 1}) EXPECT_TRUE(order.abstains(PeerId(peer))) << peer;
  for (const std::int32_t peer : {2, 3}) EXPECT_FALSE(order.abstains(PeerId(peer))) << peer;
  EXPECT_EQ(known.leader(), PeerId(2));
}

TEST(Membership, WhoIsNotInTheNextViewIsDead) {
  Membership known = membership(1);
  known.adopt(view_of(1, {0, 1, 2, 3}));
  known.adopt(view_of(2, {1, 3}));
  EXPECT_TRUE(known.is_dead(PeerId(0)));
  EXPECT_TRUE(known.is_dead(PeerId(2)));
  EXPECT_TRUE(known.leads());
}

TEST(Membership, WhoWasOnlyLeftOutOfAViewMayComeBack) {
  Membership known = membership(1);
  known.lost(PeerId(3));
  known.adopt(view_of(1, {1}));
  known.adopt(view_of(2, {1, 2, 3}));
  EXPECT_FALSE(known.is_dead(PeerId(2)));
  EXPECT_TRUE(known.is_dead(PeerId(3))) << "it was lost";
}

TEST(Membership, ANewcomerIsAnOutsiderUntilAViewLetsItIn) {
  Membership known = membership(7);
  EXPECT_TRUE(known.is_newcomer());
  EXPECT_TRUE(known.is_outsider());
  EXPECT_FALSE(known.contains(PeerId(7)));
  known.adopt(view_of(1, {0, 7}));
  EXPECT_FALSE(known.is_outsider());
  EXPECT_TRUE(known.is_newcomer());
}

TEST(Membership, AnOutsiderIsTakenForLeaderIfOnlyContactsAreLeft) {
  Membership known = membership(7);
  known.heard_of(PeerId(8));
  EXPECT_FALSE(known.is_taken_for_leader());
  for (const std::int32_t peer : {0, 1, 2, 3}) known.lost(PeerId(peer));
  EXPECT_TRUE(known.is_taken_for_leader());
  known.lost(PeerId(8));
  EXPECT_FALSE(known.is_taken_for_leader()) << "there is nobody to inquire of";
}

TEST(Membership, WhoHasLeftMayBeLostLater) {
  Membership known = membership(1);
  known.left(PeerId(0));
  EXPECT_FALSE(known.is_dead(PeerId(0)));
  known.lost(PeerId(0));
  EXPECT_TRUE(known.has_left(PeerId(0)));
}

}  // namespace
}  // namespace swarmpi::membership_test
