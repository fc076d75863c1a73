#include "protocol/membership/leading_order.hpp"

#include <gtest/gtest.h>

namespace swarmpi::leading_order_test {
namespace {

constexpr PeerId k0(0), k1(1), k2(2), k3(3);

TEST(LeadingOrder, TheLowestIdLeads) {
  const LeadingOrder order;
  EXPECT_TRUE(order.comes_before(k0, k1));
  EXPECT_FALSE(order.comes_before(k1, k0));
}

TEST(LeadingOrder, WhoAbstainsStandsBehindAllOthers) {
  LeadingOrder order;
  order.abstain(k0);
  order.abstain(k0);
  EXPECT_TRUE(order.abstains(k0));
  EXPECT_TRUE(order.comes_before(k3, k0));
  order.abstain(k3);
  EXPECT_TRUE(order.comes_before(k0, k3)) << "where all abstain, the first of all";
}

TEST(LeadingOrder, NobodyGivesWayToOneThatComesBack) {
  LeadingOrder order;
  for (const PeerId peer : {k0, k1}) order.abstain(peer);
  order.come_back(k1, 1);
  EXPECT_FALSE(order.abstains(k1));
  EXPECT_TRUE(order.comes_before(k2, k1));
  order.come_back(k0, 1);
  EXPECT_TRUE(order.comes_before(k1, k0)) << "it came back first, and may lead by now";
}

TEST(LeadingOrder, ANewcomerStandsBehindThoseThatHaveComeBack) {
  LeadingOrder order;
  order.join(k2);
  EXPECT_TRUE(order.numbers.empty()) << "nobody has abstained";
  order.abstain(k0);
  order.come_back(k0, 1);
  order.join(k3);
  EXPECT_TRUE(order.comes_before(k0, k3));
  order.abstain(k1);
  order.join(k1);
  EXPECT_TRUE(order.abstains(k1)) << "it was only let in again";
}

TEST(LeadingOrder, OfTwoOpinionsTheNewerCounts) {
  LeadingOrder order;
  order.abstain(k0);
  const LeadingOrder before = order;
  order.come_back(k0, 1);
  LeadingOrder other = before;
  other.merge(order);
  EXPECT_EQ(other, order);
  order.merge(before);
  EXPECT_FALSE(order.abstains(k0));
  order.abstain(k0);
  other.merge(order);
  EXPECT_TRUE(other.abstains(k0));
}

// It has abstained again, which the leader has not heard of.
TEST(LeadingOrder, WhoComesBackIsNumberedAboveWhatItKnowsOfItself) {
  LeadingOrder order;
  order.come_back(k0, 5);
  EXPECT_EQ(order.number_of(k0), 6);
}

}  // namespace
}  // namespace swarmpi::leading_order_test
