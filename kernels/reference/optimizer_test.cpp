#include "kernels/reference/optimizer.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/reference/test_support.hpp"
#include "kernels/state_hash.hpp"

namespace swarmpi::kernels::reference::optimizer_test {
namespace {

UpdateParameters parameters() {
  UpdateParameters p;
  p.beta1 = 0.9f;
  p.beta2 = 0.95f;
  p.epsilon = 1e-8f;
  p.lr = 3e-3f;
  p.weight_decay = 0.1f;
  p.clip = 0.5f;
  p.correction1 = 1 - 0.9f * 0.9f * 0.9f;
  p.correction2 = 1 - 0.95f * 0.95f * 0.95f;
  return p;
}

struct Tensor {
  explicit Tensor(std::int64_t count, std::uint64_t key = 80) {
    TestRandom random(key);
    weights = random.values<float>(count);
    gradient = random.values<float>(count, 1e-2);
    moment1 = random.values<float>(count, 1e-2);
    moment2 = random.values<float>(count, 1e-4);
    for (float& v : moment2) v = std::fabs(v);
  }
  UpdateBuffers part(std::int64_t first, std::int64_t count) {
    return {weights.data() + first,
            weights.data() + first,
            moment1.data() + first,
            moment2.data() + first,
            {gradient.data() + first},
            count,
            first};
  }
  UpdateBuffers all() { return part(0, static_cast<std::int64_t>(weights.size())); }
  std::uint64_t hash() const {
    std::uint64_t sum = 0;
    for (std::size_t i = weights.size(); i-- > 0;) {
      const auto index = static_cast<std::int64_t>(i);
      sum += hash_element(weights[i], moment1[i], moment2[i], index);
    }
    return sum;
  }
  std::vector<float> weights, gradient, moment1, moment2;
};

/// The published update in double; `ratio` scales the step.
struct Exact {
  explicit Exact(const Tensor& t, const UpdateParameters& p) {
    for (std::size_t i = 0; i < t.weights.size(); ++i) {
      const double g = double{p.clip} * t.gradient[i];
      m.push_back(p.beta1 * double{t.moment1[i]} + (1.0 - p.beta1) * g);
      v.push_back(p.beta2 * double{t.moment2[i]} + (1.0 - p.beta2) * g * g);
      u.push_back(m[i] / p.correction1 / (std::sqrt(v[i] / p.correction2) + p.epsilon) +
                  double{p.weight_decay} * t.weights[i]);
      w.push_back(t.weights[i]);
    }
  }
  std::vector<double> m, v, u, w;
};

TEST(AdamW, FollowsThePublishedUpdate) {
  Tensor t(1000);
  const UpdateParameters p = parameters();
  const Exact exact(t, p);
  update_adamw(t.all(), p);
  for (std::size_t i = 0; i < t.weights.size(); ++i) {
    EXPECT_NEAR(t.moment1[i], exact.m[i], 1e-8);
    EXPECT_NEAR(t.moment2[i], exact.v[i], 1e-10);
    EXPECT_NEAR(t.weights[i], exact.w[i] - p.lr * exact.u[i], 2e-7);
  }
}

TEST(AdamW, TheFirstStepMovesEachWeightByTheLearningRate) {
  Tensor t(100);
  std::fill(t.moment1.begin(), t.moment1.end(), 0.0f);
  std::fill(t.moment2.begin(), t.moment2.end(), 0.0f);
  UpdateParameters p = parameters();
  p.weight_decay = 0;
  p.correction1 = 1 - p.beta1;
  p.correction2 = 1 - p.beta2;
  const std::vector<float> before = t.weights;
  update_adamw(t.all(), p);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(before[i] - t.weights[i], std::copysign(p.lr, t.gradient[i]), 1e-6);
  }
}

TEST(AdamW, BitsAndHashDoNotDependOnHowTheTensorIsSplit) {
  Tensor whole(10007), split(10007);
  const std::uint64_t hash = update_adamw(whole.all(), parameters());
  std::uint64_t sum = 0;
  for (const auto& size :
       {std::array<std::int64_t, 2>{5000, 5007}, {0, 1}, {1, 16}, {17, 0}, {17, 4983}}) {
    const std::int64_t first = size[0], count = size[1];
    sum += update_adamw(split.part(first, count), parameters());
  }
  EXPECT_EQ(sum, hash);
  EXPECT_EQ(whole.hash(), hash);
  EXPECT_EQ(whole.weights, split.weights);
}

TEST(AdamW, TellsTheHashOfWhatItHasRead) {
  Tensor tensor(5000);
  const std::uint64_t left = update_adamw(tensor.all(), parameters());
  UpdateBuffers buffers = tensor.all();
  std::uint64_t before = 0;
  buffers.hash_before = &before;
  const std::uint64_t next = update_adamw(buffers, parameters());
  EXPECT_EQ(before, left);
  tensor.moment2[4999] *= 2;
  update_adamw(buffers, parameters());
  EXPECT_NE(before, next);
}

TEST(AdamW, MayWriteBesideTheOldWeights) {
  Tensor in_place(300), beside(300);
  std::vector<float> next(300);
  UpdateBuffers buffers = beside.all();
  buffers.new_weights = next.data();
  const std::vector<float> old = beside.weights;
  EXPECT_EQ(update_adamw(buffers, parameters()), update_adamw(in_place.all(), parameters()));
  EXPECT_EQ(next, in_place.weights);
  EXPECT_EQ(beside.weights, old);
}

TEST(Lamb, TheStepIsAsLongAsTheLearningRateTimesTheWeights) {
  Tensor t(9001);
  const UpdateParameters p = parameters();
  const Exact exact(t, p);
  const std::uint64_t hash = update_lamb(t.all(), p);
  EXPECT_EQ(hash, t.hash());
  const double ratio = std::sqrt(dot(exact.w, exact.w) / dot(exact.u, exact.u));
  for (std::size_t i = 0; i < t.weights.size(); ++i) {
    EXPECT_NEAR(t.weights[i], exact.w[i] - p.lr * ratio * exact.u[i], 2e-7);
  }
}

TEST(Lamb, MayWriteBesideTheOldWeights) {
  Tensor in_place(300), beside(300);
  std::vector<float> next(300);
  UpdateBuffers buffers = beside.all();
  buffers.new_weights = next.data();
  EXPECT_EQ(update_lamb(buffers, parameters()), update_lamb(in_place.all(), parameters()));
  EXPECT_EQ(next, in_place.weights);
}

TEST(Lamb, VanishingDirectionsGoTenTimesAsFarAtMost) {
  Tensor t(300);
  UpdateParameters p = parameters();
  p.weight_decay = 0;
  for (auto* v : {&t.gradient, &t.moment1}) {
    for (float& x : *v) x *= 1e-12f;
  }
  const Exact exact(t, p);
  ASSERT_GT(std::sqrt(dot(exact.w, exact.w) / dot(exact.u, exact.u)), 1e6);
  update_lamb(t.all(), p);
  for (std::size_t i = 0; i < t.weights.size(); ++i) {
    EXPECT_NEAR(t.weights[i], exact.w[i] - p.lr * 10 * exact.u[i], 1e-7);
  }
}

TEST(Lamb, ZeroWeightsAndZeroDirectionsTakeTheRatioOne) {
  Tensor zero_weights(50), as_adamw(50);
  for (Tensor* t : {&zero_weights, &as_adamw}) {
    std::fill(t->weights.begin(), t->weights.end(), 0.0f);
  }
  EXPECT_EQ(update_lamb(zero_weights.all(), parameters()),
            update_adamw(as_adamw.all(), parameters()));

  Tensor still(50);
  for (auto* v : {&still.gradient, &still.moment1}) std::fill(v->begin(), v->end(), 0.0f);
  UpdateParameters p = parameters();
  p.weight_decay = 0;
  const std::vector<float> before = still.weights;
  update_lamb(still.all(), p);
  EXPECT_EQ(still.weights, before);
}

TEST(StateHash, SeesEveryBitPlaceAndKindButNoPayloadOfNan) {
  for (const std::int64_t index : {0, 5, 1 << 20}) {
    for (const float value : {0.0f, 1.0f, -0x1p-140f}) {
      const std::uint64_t one = hash_element(value, value, value, index);
      EXPECT_NE(one, hash_element(value, value, value, index + 1));
      EXPECT_NE(one, hash_element(value, value, value, index + (std::int64_t{1} << 32)));
      for (int bit = 0; bit < 32; ++bit) {
        const float flipped = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1u << bit);
        if (std::isnan(flipped)) continue;
        EXPECT_NE(one, hash_element(flipped, value, value, index));
        EXPECT_NE(one, hash_element(value, flipped, value, index));
        EXPECT_NE(one, hash_element(value, value, flipped, index));
      }
    }
  }
  EXPECT_NE(hash_element(1, 2, 3, 5), hash_element(2, 1, 3, 5));
  EXPECT_NE(hash_element(1, 2, 3, 5), hash_element(1, 3, 2, 5));
  EXPECT_NE(hash_element(1, 2, 3, 5), hash_element(3, 2, 1, 5));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(hash_element(nan, nan, nan, 5), hash_element(-nan, -nan, -nan, 5));
}

TEST(StateHash, ElementsThatTradePlacesAreSeenHoweverFarApart) {
  for (const std::int64_t distance : {std::int64_t{1}, std::int64_t{1} << 32, std::int64_t{3} << 32,
                                      (std::int64_t{1} << 40) + 7}) {
    EXPECT_NE(hash_element(1, 2, 3, 5) + hash_element(4, 5, 6, 5 + distance),
              hash_element(4, 5, 6, 5) + hash_element(1, 2, 3, 5 + distance));
    const HashKeys near = PlaceKeys(5).at(0), far = PlaceKeys(5 + distance).at(0);
    EXPECT_NE(hash_word(1, near) + hash_word(2, far), hash_word(2, near) + hash_word(1, far));
  }
}

TEST(StateHash, KeysAreOfThePlaceHoweverItIsReached) {
  const std::int64_t first = (std::int64_t{5} << 32) - 3;
  for (std::uint32_t offset = 0; offset < 10; ++offset) {
    const HashKeys a = PlaceKeys(first).at(offset), b = PlaceKeys(first + offset).at(0);
    EXPECT_EQ(a.first, b.first) << offset;
    EXPECT_EQ(a.second, b.second) << offset;
  }
}

// In stretches: a tensor may have more elements than an offset can count.
TEST(StateHash, OfALongTensorIsTheSumOverItsPlaces) {
  const std::int64_t first = (std::int64_t{5} << 32) - 70'000, count = 200'000;
  std::vector<float> weights(count);
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    weights[static_cast<std::size_t>(i)] = static_cast<float>(i);
    sum += hash_word(hashed_bits(static_cast<float>(i)), PlaceKeys(first + i).at(0));
  }
  EXPECT_EQ(hash_of_weights(weights.data(), count, first), sum);
}

TEST(StateHash, OfBytesSeesEveryBit) {
  std::vector<std::byte> bytes(11, std::byte{0x5a});
  const auto hash = [&] { return hash_of_bytes(bytes.data(), bytes.size(), 0); };
  const std::uint64_t before = hash();
  for (std::size_t i = 0; i < 8 * bytes.size(); ++i) {
    const auto bit = std::byte(1 << (i % 8));
    bytes[i / 8] ^= bit;
    EXPECT_NE(hash(), before) << i;
    bytes[i / 8] ^= bit;
  }
}

}  // namespace
}  // namespace swarmpi::kernels::reference::optimizer_test
