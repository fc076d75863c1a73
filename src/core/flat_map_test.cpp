#include "core/flat_map.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "core/random.hpp"

namespace swarmpi {
namespace {

TEST(FlatMap, HoldsWhatAMapHolds) {
  RandomStream draws(3, Stream::simulation, 0);
  FlatMap<int, int> flat;
  std::map<int, int> map;
  for (int i = 0; i < 2000; ++i) {
    const int key = static_cast<int>(draws.between(0, 60));
    if (draws.chance(0.3)) {
      flat.erase(key);
      map.erase(key);
    } else if (draws.chance(0.5)) {
      flat[key] = map[key] = i;
    } else {
      EXPECT_EQ(flat.try_emplace(key, i).second, map.try_emplace(key, i).second);
    }
    ASSERT_EQ(flat.size(), map.size());
    ASSERT_EQ(flat.contains(key), map.contains(key));
  }
  std::vector<std::pair<int, int>> of_flat(flat.begin(), flat.end());
  std::vector<std::pair<int, int>> of_map(map.begin(), map.end());
  EXPECT_EQ(of_flat, of_map);
  erase_if(flat, [](const auto& entry) { return entry.first % 2 == 0; });
  for (const auto& [key, value] : flat) EXPECT_EQ(key % 2, 1);
}

}  // namespace
}  // namespace swarmpi
