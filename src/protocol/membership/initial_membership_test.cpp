#include "protocol/membership/initial_membership.hpp"

#include <gtest/gtest.h>

namespace swarmpi::initial_membership_test {
namespace {

TEST(FirstView, SparesAreTheHighestRanks) {
  Config config;
  config.swarm.stages = 2;
  config.swarm.spares = 1;
  config.swarm.pins = {1};
  const View view = first_view(config, 4, {1, 1});
  EXPECT_EQ(view.replicas(StageId(0)), (std::vector<PeerId>{PeerId(1), PeerId(2)}));
  EXPECT_EQ(view.replicas(StageId(1)), (std::vector<PeerId>{PeerId(0)}));
  EXPECT_TRUE(view.members().at(PeerId(3)).empty());
}

}  // namespace
}  // namespace swarmpi::initial_membership_test
