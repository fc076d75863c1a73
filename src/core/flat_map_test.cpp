#include "core/flat_map.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "core/random.hpp"

namespace swarmpi::flat_map_test {
namespace {

/// Does the same to a FlatMap and a std::map; keys are `key_of` numbers up to `last`.
template <class KeyOf>
void expect_what_a_map_holds(int last, const KeyOf& key_of) {
  using Key = decltype(key_of(0));
  RandomStream draws(3, Stream::simulation, 0);
  FlatMap<Key, int> flat;
  std::map<Key, int> map;
  for (int i = 0; i < 4000; ++i) {
    const Key key = key_of(static_cast<int>(draws.between(0, last)));
    if (draws.chance(0.3)) {
      flat.erase(key);
      map.erase(key);
    } else if (draws.chance(0.5)) {
      flat[key] = map[key] = i;
    } else {
      EXPECT_EQ(flat.try_emplace(key, i).second, map.try_emplace(key, i).second);
    }
    const Key other = key_of(static_cast<int>(draws.between(-3, last + 3)));
    ASSERT_EQ(flat.size(), map.size());
    ASSERT_EQ(flat.contains(key), map.contains(key));
    ASSERT_EQ(flat.contains(other), map.contains(other));
    if (i % 1000 != 999) continue;
    const auto in_the_middle = [&](const auto& entry) {
      return key_of(last / 3) < entry.first && entry.first < key_of(last / 2);
    };
    erase_if(flat, in_the_middle);
    std::erase_if(map, in_the_middle);
    EXPECT_EQ((std::vector<std::pair<Key, int>>(flat.begin(), flat.end())),
              (std::vector<std::pair<Key, int>>(map.begin(), map.end())));
  }
}

TEST(FlatMap, HoldsWhatAMapHolds) {
  expect_what_a_map_holds(60, [](int number) { return number; });
}

TEST(FlatMap, FindsIdsHoweverTheyAreSpread) {
  expect_what_a_map_holds(300, [](int number) { return PeerId(number); });
  expect_what_a_map_holds(300, [](int number) { return PeerId(number * number * number); });
  expect_what_a_map_holds(40, [](int number) {
    return PeerId(number == 40 ? std::numeric_limits<std::int32_t>::max() : number);
  });
}

TEST(FlatMap, IsEmptyAfterItWasMovedFrom) {
  FlatMap<PeerId, int> one;
  for (int i = 0; i < 9; ++i) one[PeerId(i)] = i;
  const FlatMap<PeerId, int> other = std::exchange(one, {});
  EXPECT_FALSE(one.contains(PeerId(3)));
  EXPECT_EQ(other.at(PeerId(3)), 3);
  one.clear();
  one[PeerId(70)] = 7;
  EXPECT_EQ(one.at(PeerId(70)), 7);
}

}  // namespace
}  // namespace swarmpi::flat_map_test
