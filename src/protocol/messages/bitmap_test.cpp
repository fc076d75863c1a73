#include "protocol/messages/bitmap.hpp"

#include <gtest/gtest.h>

namespace swarmpi::bitmap_test {
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

TEST(Bitmap, AddsUpAndTakesAway) {
  Bitmap a(100);
  Bitmap b(100);
  for (const std::int64_t index : {1, 70}) a.insert(index);
  for (const std::int64_t index : {70, 71}) b.insert(index);
  a.merge(b);
  EXPECT_EQ(a.text(), "1,70-71");
  a.subtract(b);
  EXPECT_EQ(a.text(), "1");
}

TEST(Bitmap, KnowsTheFirstThatIsMissing) {
  Bitmap set(70);
  EXPECT_EQ(set.first_missing(), 0);
  for (std::int64_t index = 0; index < 66; ++index) set.insert(index);
  EXPECT_EQ(set.first_missing(), 66);
  for (std::int64_t index = 66; index < 70; ++index) set.insert(index);
  EXPECT_EQ(set.first_missing(), 70);
}

TEST(Bitmap, ReadsAsRanges) {
  Bitmap set(70);
  EXPECT_EQ(set.text(), "");
  for (const std::int64_t index : {0, 1, 2, 3, 7, 63, 64, 69}) set.insert(index);
  EXPECT_EQ(set.text(), "0-3,7,63-64,69");
}

}  // namespace
}  // namespace swarmpi::bitmap_test
