#include "data/permutation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace swarmpi::permutation_test {
namespace {

std::vector<std::uint64_t> all_of(std::uint64_t size, std::uint64_t seed, std::uint64_t pass) {
  const Permutation order(size, seed, pass);
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < size; ++i) values.push_back(order(i));
  return values;
}

TEST(Permutation, HitsEveryNumberOnce) {
  std::vector<std::uint64_t> sizes = {1000, 4095, 4096, 4097, 65537, 100003};
  for (std::uint64_t size = 1; size <= 300; ++size) sizes.push_back(size);
  for (const std::uint64_t size : sizes) {
    std::vector<bool> hit(size);
    for (const std::uint64_t value : all_of(size, 7, size % 5)) {
      ASSERT_LT(value, size);
      ASSERT_FALSE(hit[value]) << value << " twice among " << size;
      hit[value] = true;
    }
  }
}

TEST(Permutation, OneToOneOnSamplesOfTheLargestSet) {
  const std::uint64_t size = std::uint64_t{1} << 32;
  const Permutation order(size, 3, std::uint64_t{1} << 40);
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const std::uint64_t value = order(i * 214733);
    ASSERT_LT(value, size);
    ASSERT_TRUE(seen.insert(value).second);
  }
}

TEST(Permutation, DependsOnSeedAndPass) {
  const auto base = all_of(1000, 1, 0);
  EXPECT_EQ(base, all_of(1000, 1, 0));
  EXPECT_NE(base, all_of(1000, 2, 0));
  EXPECT_NE(base, all_of(1000, 1, 1));
  EXPECT_NE(base, all_of(1000, 1, std::uint64_t{1} << 32)) << "the high half of pass counts too";
}

TEST(Permutation, LooksShuffled) {
  const std::uint64_t size = 10007;
  for (std::uint64_t pass = 0; pass < 5; ++pass) {
    const auto values = all_of(size, 42, pass);
    std::uint64_t fixed_points = 0, neighbours = 0;
    double correlation = 0;
    const double mean = (static_cast<double>(size) - 1) / 2;
    for (std::uint64_t i = 0; i < size; ++i) {
      fixed_points += values[i] == i ? 1 : 0;
      if (i > 0) neighbours += values[i] == values[i - 1] + 1 ? 1 : 0;
      correlation += (static_cast<double>(i) - mean) * (static_cast<double>(values[i]) - mean);
    }
    correlation /= static_cast<double>(size) * (static_cast<double>(size * size) - 1) / 12;
    // Of a random order: 1 expected of each (Poisson; 9 and more once in a million), and a
    // correlation of standard deviation 0.01.
    EXPECT_LT(fixed_points, 9u);
    EXPECT_LT(neighbours, 9u);
    EXPECT_LT(std::fabs(correlation), 0.05);
  }
}

// Every position must be taken by every element equally often over many passes; small sets are the
// hard case.
TEST(Permutation, EveryElementReachesEveryPosition) {
  constexpr std::uint64_t passes = 2000;
  for (const std::uint64_t size : {2, 3, 5, 12, 16}) {
    std::vector<double> counts(size * size);
    for (std::uint64_t pass = 0; pass < passes; ++pass) {
      const auto values = all_of(size, 9, pass);
      for (std::uint64_t i = 0; i < size; ++i) counts[i * size + values[i]] += 1;
    }
    const double expected = static_cast<double>(passes) / static_cast<double>(size);
    for (const double count : counts) {
      // Five standard deviations of a binomial count.
      EXPECT_LT(std::fabs(count - expected), 5 * std::sqrt(expected)) << size;
    }
  }
}

}  // namespace
}  // namespace swarmpi::permutation_test
