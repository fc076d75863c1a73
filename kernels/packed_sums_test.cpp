#include "kernels/packed_sums.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace swarmpi::kernels::packed_sums_test {
namespace {

using Values = std::vector<std::int64_t>;

constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

std::int64_t size_of(const Values& values) { return static_cast<std::int64_t>(values.size()); }

std::vector<std::byte> packed(const std::vector<Values>& blocks) {
  std::vector<std::uint8_t> widths;
  std::size_t size_bytes = packed_frame_bytes(static_cast<std::int64_t>(blocks.size()));
  for (const Values& block : blocks) {
    widths.push_back(bits_in_use(block.data(), size_of(block)));
    size_bytes += packed_block_bytes(size_of(block), widths.back());
  }
  std::vector<std::byte> bytes(size_bytes, std::byte{0xa5});
  SumsPacker packer(bytes, widths);
  for (const Values& block : blocks) packer.add(block.data(), size_of(block));
  packer.finish();
  return bytes;
}

void add_packed(std::vector<Values>& sums, const std::vector<std::byte>& bytes) {
  SumsUnpacker unpacker(bytes, static_cast<std::int64_t>(sums.size()));
  for (Values& block : sums) unpacker.add(block.data(), block.data(), size_of(block));
  unpacker.finish();
}

/// Into another place than that of the addends.
std::vector<Values> sums_with(const std::vector<Values>& addends,
                              const std::vector<std::byte>& bytes) {
  SumsUnpacker unpacker(bytes, static_cast<std::int64_t>(addends.size()));
  std::vector<Values> sums;
  for (const Values& block : addends) {
    sums.emplace_back(block.size(), kMost);
    unpacker.add(sums.back().data(), block.data(), size_of(block));
  }
  unpacker.finish();
  return sums;
}

std::vector<Values> zeros_like(const std::vector<Values>& blocks) {
  std::vector<Values> zeros;
  for (const Values& block : blocks) zeros.emplace_back(block.size());
  return zeros;
}

/// Values of up to `width` bits, with both extremes among them; their places are drawn as well.
Values random_block(std::mt19937_64& random, int width, std::size_t count) {
  Values values(count);
  if (width == 0) return values;
  for (auto& v : values) v = static_cast<std::int64_t>(random()) >> (64 - width);
  values[random() % count] = kLeast >> (64 - width);
  return values;
}

TEST(PackedSums, EveryWidthComesBackExactly) {
  std::mt19937_64 random(1);
  for (int width = 0; width <= 64; ++width) {
    for (const std::size_t count : {1, 7, 8, 9, 64, 4095, 4096}) {
      const std::vector<Values> blocks = {random_block(random, width, count)};
      const auto bytes = packed(blocks);
      EXPECT_EQ(static_cast<int>(bytes[0]), width);
      EXPECT_EQ(bytes.size(), 1 + (count + 7) / 8 * static_cast<std::size_t>(width) + 8);
      auto sums = zeros_like(blocks);
      add_packed(sums, bytes);
      EXPECT_EQ(sums, blocks) << "width " << width << ", " << count << " values";
      const std::vector<Values> addends = {random_block(random, 30, count)};
      add_packed(sums = addends, bytes);
      EXPECT_EQ(sums_with(addends, bytes), sums) << "width " << width << ", " << count;
    }
  }
}

TEST(PackedSums, TheWidthIsThatOfTheLargestWithItsSign) {
  const auto width = [](Values values) { return int{bits_in_use(values.data(), size_of(values))}; };
  EXPECT_EQ(width({}), 0);
  EXPECT_EQ(width({0, 0, 0}), 0);
  EXPECT_EQ(width({0, -1}), 1);
  EXPECT_EQ(width({1}), 2);
  EXPECT_EQ(width({-2}), 2);
  EXPECT_EQ(width({0, 0, 0, 0, 0, 0, 0, 0, 0, -129}), 9);
  EXPECT_EQ(width({127, 3, -128}), 8);
  EXPECT_EQ(width({kMost}), 64);
  EXPECT_EQ(width({kLeast}), 64);
  EXPECT_EQ(width({std::int64_t{1} << 62}), 64);
  EXPECT_EQ(width({-(std::int64_t{1} << 62)}), 63);
}

TEST(PackedSums, BlocksOfManyWidthsStandSideBySide) {
  std::mt19937_64 random(2);
  std::vector<Values> blocks;
  for (int i = 0; i < 300; ++i) {
    blocks.push_back(random_block(random, static_cast<int>(random() % 65), 1 + random() % 40));
  }
  blocks.emplace_back();  // nothing at all
  auto sums = zeros_like(blocks);
  add_packed(sums, packed(blocks));
  EXPECT_EQ(sums, blocks);
}

TEST(PackedSums, AreAddedToWhatIsThere) {
  std::mt19937_64 random(3);
  const std::vector<Values> a = {random_block(random, 50, 4096), random_block(random, 0, 11),
                                 random_block(random, 62, 100)};
  const std::vector<Values> b = {random_block(random, 33, 4096), random_block(random, 5, 11),
                                 random_block(random, 62, 100)};
  auto sums = a;
  add_packed(sums, packed(b));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) EXPECT_EQ(sums[i][j], a[i][j] + b[i][j]);
  }
}

TEST(PackedSums, TheSameSumsAreTheSameBytes) {
  std::mt19937_64 random(4);
  const std::vector<Values> blocks = {random_block(random, 13, 21), random_block(random, 3, 5)};
  EXPECT_EQ(packed(blocks), packed(blocks));
}

TEST(PackedSumsDeath, AMessageThatIsNotWhatItShouldBeEndsTheProcess) {
  const std::vector<Values> blocks = {Values(100, 77), Values(20, -3)};
  const auto good = packed(blocks);
  auto sums = zeros_like(blocks);
  auto bytes = good;
  bytes[1] = std::byte{64};
  EXPECT_DEATH(add_packed(sums, bytes), "all their blocks");
  bytes[1] = std::byte{65};
  EXPECT_DEATH(add_packed(sums, bytes), "all their blocks");
  bytes[1] = std::byte{1};
  EXPECT_DEATH(add_packed(sums, bytes), "nothing but their blocks");
  bytes = good;
  bytes.pop_back();
  EXPECT_DEATH(add_packed(sums, bytes), "all their blocks");
  EXPECT_DEATH(add_packed(sums, {std::byte{0}}), "all their widths");
}

}  // namespace
}  // namespace swarmpi::kernels::packed_sums_test
