#include "swarm/bitmap.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

TEST(Bitmap, HoldsWhatWasInsertedAcrossWords) {
  Bitmap set(130);
  for (const std::int64_t index : {0, 63, 64, 129}) set.insert(index);
  EXPECT_EQ(set.count(), 4);
  EXPECT_TRUE(set.contains(63));
  EXPECT_TRUE(set.contains(129));
  EXPECT_FALSE(set.contains(1));
  EXPECT_FALSE(set.contains(-1));
  EXPECT_FALSE(set.contains(130));
  set.erase(63);
  EXPECT_FALSE(set.contains(63));
  EXPECT_EQ(set.count(), 3);
}

TEST(Bitmap, IsFullOnlyWithEveryIndex) {
  Bitmap set(65);
  for (std::int64_t index = 0; index < 64; ++index) set.insert(index);
  EXPECT_FALSE(set.full());
  set.insert(64);
  EXPECT_TRUE(set.full());
  set.insert(64);
  EXPECT_EQ(set.count(), 65);
}

TEST(Bitmap, SharesOfAStageAreDisjointUntilOneIndexIsInBoth) {
  Bitmap a(100);
  Bitmap b(100);
  a.insert(70);
  b.insert(71);
  EXPECT_TRUE(a.disjoint_from(b));
  b.insert(70);
  EXPECT_FALSE(a.disjoint_from(b));
  EXPECT_FALSE(b.disjoint_from(a));
}

TEST(Bitmap, ReadsAsRanges) {
  Bitmap set(70);
  EXPECT_EQ(set.text(), "");
  for (const std::int64_t index : {0, 1, 2, 3, 7, 63, 64, 69}) set.insert(index);
  EXPECT_EQ(set.text(), "0-3,7,63-64,69");
}

}  // namespace
}  // namespace swarmpi
