#include "core/flat_set.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "core/random.hpp"

namespace swarmpi::flat_set_test {
namespace {

TEST(FlatSet, HoldsWhatASetHolds) {
  RandomStream draws(3, Stream::simulation, 0);
  FlatSet<int> flat;
  std::set<int> set;
  for (int i = 0; i < 2000; ++i) {
    const int value = static_cast<int>(draws.between(0, 60));
    if (draws.chance(0.3)) {
      flat.erase(value);
      set.erase(value);
    } else if (draws.chance(0.5)) {
      EXPECT_EQ(flat.insert(value), set.insert(value).second);
    } else {
      const std::vector<int> several{value, value / 2, value};
      flat.insert(several.begin(), several.end());
      set.insert(several.begin(), several.end());
    }
    ASSERT_EQ(flat.size(), set.size());
    ASSERT_EQ(flat.contains(value), set.contains(value));
  }
  EXPECT_EQ(std::vector<int>(flat.begin(), flat.end()), std::vector<int>(set.begin(), set.end()));
  erase_if(flat, [](int value) { return value % 2 == 0; });
  for (const int value : flat) EXPECT_EQ(value % 2, 1);
  EXPECT_EQ((FlatSet{2, 1, 2}), (FlatSet{1, 2}));
}

}  // namespace
}  // namespace swarmpi::flat_set_test
