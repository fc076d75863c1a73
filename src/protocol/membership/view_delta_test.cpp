#include "protocol/membership/view_delta.hpp"

#include <gtest/gtest.h>

namespace swarmpi::view_delta_test {
namespace {

// Peers 0 to 3 serve two stages by turns, peer 4 is a spare.
View five_peers() {
  View view;
  view.number = {Term(2), 7};
  for (std::int32_t id = 0; id < 4; ++id) view.serve(PeerId(id), StageId(id % 2));
  view.add(PeerId(4));
  view.set_budget(PeerId(4), 100);
  return view;
}

View next_of(const View& view) {
  View next = view;
  ++next.number.number;
  return next;
}

// Only these are named in the delta, and with it the base becomes that view.
void expect_changes(const View& base, const View& next, const std::vector<std::int32_t>& peers) {
  const ViewDelta delta = delta_between(base, next);
  std::vector<std::int32_t> changed;
  for (const PeerRoles& roles : delta.changed) changed.push_back(roles.peer.value);
  EXPECT_EQ(changed, peers);
  const ViewRef made = apply(delta, base);
  ASSERT_TRUE(made);
  EXPECT_EQ(*made, next);
}

TEST(ViewDelta, NamesThosePeersOnlyOfWhomSomethingElseIsSaid) {
  const View base = five_peers();
  expect_changes(base, next_of(base), {});

  View next = next_of(base);
  next.remove(PeerId(3));
  next.learn(PeerId(4), StageId(1));
  expect_changes(base, next, {3, 4});

  View later = next_of(next);
  later.serve(PeerId(4), StageId(1));
  later.set_leaving(PeerId(0), StageId(0), true);
  later.set_budget(PeerId(2), 5);
  later.add(PeerId(9));
  expect_changes(next, later, {0, 2, 4, 9});

  View last = next_of(later);
  last.set_leaving(PeerId(0), StageId(0), false);
  last.take_from(PeerId(0), StageId(0));
  last.remove(PeerId(9));
  expect_changes(later, last, {0, 9});
}

TEST(ViewDelta, CarriesAMoveAndTheOrderInWhichPeersLead) {
  const View base = five_peers();
  View next = next_of(base);
  next.begin_move({PeerId(1), StageId(1), StageId(0)});
  next.abstain(PeerId(0));
  expect_changes(base, next, {1});
  EXPECT_TRUE(delta_between(base, next).order);
  View later = next_of(next);
  later.end_move();
  expect_changes(next, later, {});
  EXPECT_FALSE(delta_between(next, later).order) << "it is the same";
}

// A delta of a view that was skipped, or of one that another leader of the same number has
// published.
TEST(ViewDelta, CountsOnItsBaseOnly) {
  const View base = five_peers();
  View next = next_of(base);
  next.remove(PeerId(3));
  const ViewDelta delta = delta_between(base, next);
  View earlier = base;
  --earlier.number.number;
  EXPECT_FALSE(apply(delta, earlier));
  View of_another = base;
  of_another.add(PeerId(6));
  EXPECT_FALSE(apply(delta, of_another)) << "something else comes out";
}

}  // namespace
}  // namespace swarmpi::view_delta_test
