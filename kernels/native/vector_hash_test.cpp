#include "kernels/native/vector_hash.hpp"

#include <limits>
#include <vector>

#include "kernels/native/test_support.hpp"

namespace swarmpi::kernels::native::vector_hash_test {
namespace {

constexpr std::int64_t kUpperHalf = std::int64_t{1} << 32;

std::vector<float> random_values(std::uint64_t seed) {
  TestRandom random(seed);
  std::vector<float> values(333);
  for (float& value : values) value = static_cast<float>(random.uniform());
  return values;
}

/// Places before, at and behind a carry.
constexpr std::int64_t kPlaces[] = {0,
                                    7,
                                    kUpperHalf - 65,
                                    kUpperHalf - 64,
                                    kUpperHalf - 40,
                                    kUpperHalf - 17,
                                    kUpperHalf - 16,
                                    kUpperHalf - 1,
                                    3 * kUpperHalf + 5};
/// Less than a vector, vectors, and more.
constexpr std::int64_t kCounts[] = {0, 1, 15, 16, 17, 64, 333};

TEST(VectorHash, IsTheHashOfAState) {
  std::vector<float> weights = random_values(1), moment1 = random_values(2),
                     moment2 = random_values(3);
  weights[3] = std::numeric_limits<float>::quiet_NaN();
  moment1[4] = -std::numeric_limits<float>::quiet_NaN();
  moment2[20] = std::numeric_limits<float>::infinity();
  moment2[330] = std::numeric_limits<float>::quiet_NaN();
  for (const std::int64_t place : kPlaces) {
    for (const std::int64_t count : kCounts) {
      EXPECT_EQ(vector_hash_of_state(weights.data(), moment1.data(), moment2.data(), count, place),
                hash_of_state(weights.data(), moment1.data(), moment2.data(), count, place))
          << count << " from " << place;
      EXPECT_EQ(vector_hash_of_weights(weights.data(), count, place),
                hash_of_weights(weights.data(), count, place))
          << count << " from " << place;
    }
  }
}

TEST(VectorHash, IsTheHashOfBytes) {
  const std::vector<float> values = random_values(4);
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  for (const std::int64_t place : kPlaces) {
    for (const std::int64_t count : kCounts) {
      EXPECT_EQ(vector_hash_of_words(bytes, count, place),
                hash_of_bytes(bytes, static_cast<std::size_t>(count) * 4, place))
          << count << " from " << place;
    }
  }
}

}  // namespace
}  // namespace swarmpi::kernels::native::vector_hash_test
