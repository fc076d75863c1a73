#include "simulation/work_count.hpp"

#include <gtest/gtest.h>

namespace swarmpi::work_count_test {
namespace {

using Pass = WorkCount::Pass;

WorkId work(std::int64_t step, std::int32_t index) {
  return {{Step(step), Purpose::train, index}, StageId(0)};
}

TEST(WorkCount, NothingIsRepeatedBeforeADeath) {
  WorkCount count;
  EXPECT_TRUE(count.begin(PeerId(0), work(1, 0), Pass::forward));
  EXPECT_TRUE(count.begin(PeerId(0), work(1, 0), Pass::backward));
  EXPECT_FALSE(count.begin(PeerId(1), work(1, 0), Pass::backward));
}

TEST(WorkCount, ADeathCostsItsOwnWorkInOpenStepsAndWhatIsDoneAgain) {
  WorkCount count;
  count.begin(PeerId(0), work(1, 0), Pass::backward);
  count.begin(PeerId(0), work(2, 0), Pass::backward);
  count.begin(PeerId(0), work(2, 1), Pass::backward);
  count.begin(PeerId(1), work(2, 2), Pass::backward);
  count.died(PeerId(0), true, Step(1));
  count.begin(PeerId(1), work(2, 0), Pass::backward);
  count.begin(PeerId(1), work(2, 1), Pass::backward);
  count.begin(PeerId(1), work(2, 1), Pass::forward);
  count.begin(PeerId(1), work(2, 3), Pass::backward);
  ASSERT_EQ(count.deaths().size(), 1u);
  EXPECT_TRUE(count.deaths()[0].led);
  EXPECT_EQ(count.deaths()[0].own, 2);
  EXPECT_EQ(count.deaths()[0].repeated, 2);
  count.died(PeerId(1), false, Step(1));
  EXPECT_EQ(count.deaths()[1].own, 4);
}

}  // namespace
}  // namespace swarmpi::work_count_test
