// The operations that give the same bits on both backends.

#include "kernels/fixed_point_element.hpp"
#include "kernels/native/test_support.hpp"
#include "kernels/rounding_mode.hpp"

namespace swarmpi::kernels::exact_test {
namespace {

TEST(EmbeddingTest, HasTheReferencesBits) {
  for (const std::int64_t width : {1, 7, 64, 300}) {
    for (const Strides strides : {Strides::dense, Strides::padded, Strides::odd}) {
      const std::int64_t context = 19;
      const std::int64_t rows = 3 * context;
      TestRandom random(3);
      const auto table = random.values<float>(11 * width);
      const auto positions = random.values<float>(context * width);
      const auto tokens = random.tokens(rows, 11);
      const Padded dx(rows, width, stride_of(width, strides), random);
      expect_agreement(
          [&](Backend& backend) {
            Padded x(rows, width, stride_of(width, strides));
            Padded dtable(11, width, width);
            Padded dpositions(context, width, width);
            backend.embed_forward(x.matrix(), tokens.data(), table.data(), positions.data(),
                                  context);
            backend.embed_backward(dtable.matrix(), dpositions.matrix(), dx.matrix(),
                                   tokens.data());
            return std::vector<Output>{{"x", x.elements()},
                                       {"dtable", dtable.elements()},
                                       {"dpositions", dpositions.elements()}};
          },
          Precision::fp32);
    }
  }
}

struct SumsResult {
  Contribution contribution;
  std::vector<std::int64_t> sums;
  std::vector<float> gradient;
  std::vector<double> squares;
};

SumsResult sum_twice(Backend& backend, Write write, const Padded& gradient, std::int16_t exponent) {
  const auto count = static_cast<std::size_t>(gradient.matrix().rows * gradient.matrix().columns);
  const int bits = fixed_point_bits(64);
  SumsResult result{{},
                    std::vector<std::int64_t>(count, 12345),
                    std::vector<float>(count),
                    std::vector<double>(count / 4096 + 1)};
  backend.add_gradient(result.contribution, result.sums.data(), write, gradient.matrix(), exponent,
                       bits);
  Contribution again;
  backend.add_gradient(again, result.sums.data(), Write::add, gradient.matrix(), exponent, bits);
  backend.round_sums(result.gradient.data(), result.squares.data(), result.sums.data(),
                     static_cast<std::int64_t>(count),
                     quantum_per_token(quantum_exponent(exponent, bits), 4099));
  return result;
}

void expect_same_sums(const Padded& gradient, std::int16_t exponent) {
  const auto reference = make_reference_backend({});
  const auto native = make_native_backend({});
  for (const Write write : {Write::set, Write::add}) {
    const SumsResult expected = sum_twice(*reference, write, gradient, exponent);
    const SumsResult result = sum_twice(*native, write, gradient, exponent);
    EXPECT_EQ(result.contribution.exponent, expected.contribution.exponent);
    EXPECT_EQ(result.contribution.nonfinite, expected.contribution.nonfinite);
    EXPECT_EQ(result.contribution.overflow, expected.contribution.overflow);
    EXPECT_EQ(result.sums, expected.sums);
    EXPECT_TRUE(same_bits(result.gradient, expected.gradient));
    EXPECT_EQ(result.squares, expected.squares);
  }
}

TEST(OrderFreeSumsTest, HaveTheReferencesBits) {
  set_rounding_mode();
  for (const auto& [rows, columns] :
       {std::pair{1, 1}, {1, 4097}, {33, 61}, {129, 96}, {300, 257}}) {
    for (const Strides strides : {Strides::dense, Strides::odd}) {
      for (const double scale : {1e-30, 1.0, 1e30}) {
        TestRandom random(17);
        const Padded gradient(rows, columns, stride_of(columns, strides), random, scale);
        const int exponent = scale == 1.0 ? 0 : (scale < 1.0 ? -99 : 100);
        expect_same_sums(gradient, static_cast<std::int16_t>(exponent));
        expect_same_sums(gradient, static_cast<std::int16_t>(exponent - kHeadroomBits));
      }
    }
  }
}

TEST(OrderFreeSumsTest, FlaggedGradientsAddNothing) {
  TestRandom random(23);
  for (const float odd : {std::nanf(""), HUGE_VALF, -HUGE_VALF, 1e20f, 0.5f}) {
    Padded gradient(70, 30, 33, random);
    gradient.matrix().row(69)[29] = odd;
    expect_same_sums(gradient, 0);
  }
  const Padded zeros(5, 6, 6);
  expect_same_sums(zeros, 0);
  const auto native = make_native_backend({});
  std::vector<std::int64_t> sums(30, 1);
  const Padded gradient(5, 6, 6, random);
  Contribution did;
  native->add_gradient(did, sums.data(), Write::add, gradient.matrix(), kNoExponent, 40);
  EXPECT_TRUE(did.overflow);
  EXPECT_EQ(sums, std::vector<std::int64_t>(30, 1));
}

TEST(OrderFreeSumsTest, OfSomeRowsAreThoseOfTheWholeTensor) {
  constexpr std::int64_t kTensorRows = 90, kColumns = 33;
  const std::vector<std::int32_t> rows = {89, 0, 41, 42, 7};
  TestRandom random(29);
  for (const float factor : {1.0f, 1e20f}) {  // flagged, and added nowhere
    Padded some(static_cast<std::int64_t>(rows.size()), kColumns, kColumns + 3, random);
    some.matrix().row(3)[20] *= factor;
    Padded whole(kTensorRows, kColumns, kColumns);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(some.matrix().row(static_cast<std::int64_t>(i)), kColumns,
                  whole.matrix().row(rows[i]));
    }
    for (const auto& backend : {make_reference_backend({}), make_native_backend({})}) {
      std::vector<std::int64_t> expected(kTensorRows * kColumns, 5), sums = expected;
      Contribution of_whole, of_rows;
      backend->add_gradient(of_whole, expected.data(), Write::add, whole.matrix(), 0, 40);
      backend->add_row_gradients(of_rows, sums.data(), some.matrix(), rows.data(), 0, 40);
      EXPECT_EQ(sums, expected);
      EXPECT_EQ(of_rows.exponent, of_whole.exponent);
      EXPECT_EQ(of_rows.overflow, of_whole.overflow);
      EXPECT_EQ(of_rows.overflow, factor > 1);
    }
  }
}

struct UpdateCase {
  std::int64_t count;
  bool is_lamb, in_place, from_sums;  // in_place: old and new weights are one array
};

/// Three updates of one tensor.
std::vector<Output> three_updates(Backend& backend, const UpdateCase& c,
                                  std::vector<std::uint64_t>& hashes) {
  const auto& [count, is_lamb, in_place, from_sums] = c;
  constexpr double kQuantumPerToken = 0x1p-40 / 37;
  TestRandom random(41);
  std::vector<float> weights = random.values<float>(count, 0.1);
  std::vector<float> next = weights;
  std::vector<float> moment1(weights.size());
  std::vector<float> moment2(weights.size());
  for (int t = 1; t <= 3; ++t) {
    const std::vector<float> gradient = random.values<float>(count, 0.01);
    std::vector<std::int64_t> sums(weights.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = static_cast<std::int64_t>(gradient[i] / kQuantumPerToken);
    }
    std::uint64_t before = 0;
    UpdateBuffers buffers{in_place ? weights.data() : next.data(),
                          weights.data(),
                          moment1.data(),
                          moment2.data(),
                          from_sums ? ReducedGradient{nullptr, sums.data(), kQuantumPerToken}
                                    : ReducedGradient{gradient.data(), nullptr, 0},
                          count,
                          1000003};
    const UpdateParameters p{0.9f,
                             0.95f,
                             1e-8f,
                             1e-3f,
                             0.1f,
                             0.7f,
                             1 - std::pow(0.9f, float(t)),
                             1 - std::pow(0.95f, float(t))};
    if (!is_lamb) buffers.hash_before = &before;
    std::uint64_t& hash = hashes.emplace_back();
    if (is_lamb) {
      backend.update_lamb(hash, buffers, p);
    } else {
      backend.update_adamw(hash, buffers, p);
    }
    if (!is_lamb && t > 1) {
      EXPECT_EQ(before, hashes[hashes.size() - 2]);
    }
    if (!in_place) std::swap(weights, next);
  }
  return {{"weights", weights}, {"moment1", moment1}, {"moment2", moment2}};
}

TEST(OptimizerTest, HasTheReferencesBitsAndHash) {
  for (const std::int64_t count : {1, 7, 4096, 4097, 50021}) {
    for (const bool is_lamb : {false, true}) {
      for (const bool in_place : {false, true}) {
        for (const bool from_sums : {false, true}) {
          std::vector<std::vector<std::uint64_t>> hashes;
          expect_agreement(
              [&](Backend& backend) {
                return three_updates(backend, {count, is_lamb, in_place, from_sums},
                                     hashes.emplace_back());
              },
              Precision::fp32);
          for (const auto& other : hashes) EXPECT_EQ(other, hashes.front());
        }
      }
    }
  }
}

TEST(HashTest, OfWeightsIsTheReferences) {
  for (const std::int64_t count : {1, 4096, 50021}) {
    TestRandom random(43);
    const std::vector<float> weights = random.values<float>(count);
    const std::int64_t first = (std::int64_t{1} << 32) - 5000;
    std::uint64_t native = 0, reference = 0;
    make_native_backend({})->hash_weights(native, weights.data(), count, first);
    make_reference_backend({})->hash_weights(reference, weights.data(), count, first);
    EXPECT_EQ(native, reference);
    for (const auto& backend : {make_reference_backend({}), make_native_backend({})}) {
      EXPECT_EQ(backend->state_hash(weights.data(), nullptr, nullptr, count, first), reference);
    }
  }
}

TEST(HashTest, AdamWWithCopiesDoesWhatTheOperationsOneByOneDo) {
  constexpr std::int64_t kOutputs = 161, kInputs = 75, kCount = kOutputs * kInputs;
  const UpdateParameters parameters{0.9f, 0.99f, 1e-8f, 0.01f, 0.1f, 0.5f, 0.1f, 0.01f};
  struct State {
    std::vector<float> weights, moment1, moment2, old_weights;
    std::vector<std::uint64_t> hashes = std::vector<std::uint64_t>(4);
  };
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const bool in_place : {true, false}) {
      for (const auto& backend :
           {make_reference_backend({precision}), make_native_backend({precision})}) {
        const auto weight = backend->make_weight(kOutputs, kInputs);
        const auto update = [&](bool in_one) {
          TestRandom random(45);
          State s{random.values<float>(kCount), std::vector<float>(kCount),
                  std::vector<float>(kCount), random.values<float>(kCount)};
          const auto gradient = random.values<float>(kCount);
          const UpdateBuffers buffers{.new_weights = s.weights.data(),
                                      .old_weights = (in_place ? s.weights : s.old_weights).data(),
                                      .moment1 = s.moment1.data(),
                                      .moment2 = s.moment2.data(),
                                      .gradient = {gradient.data()},
                                      .count = kCount,
                                      .first_index = 17,
                                      .hash_before = &s.hashes[3]};
          backend->refresh(*weight, s.weights.data());
          if (in_one) {
            backend->update_adamw_and_copies(s.hashes[0], buffers, parameters,
                                             {weight.get(), &s.hashes[1], &s.hashes[2]});
          } else {
            backend->hash_copies(s.hashes[1], *weight);
            backend->update_adamw(s.hashes[0], buffers, parameters);
            backend->refresh(*weight, s.weights.data());
            backend->hash_copies(s.hashes[2], *weight);
          }
          backend->finish();
          return s;
        };
        const State one = update(true), apart = update(false);
        EXPECT_TRUE(same_bits(one.weights, apart.weights));
        EXPECT_TRUE(same_bits(one.moment1, apart.moment1));
        EXPECT_TRUE(same_bits(one.moment2, apart.moment2));
        EXPECT_EQ(one.hashes, apart.hashes);
      }
    }
  }
}

TEST(HashTest, OfCopiesSeesEveryByte) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const std::int64_t outputs = 97, inputs = precision == Precision::bf16 ? 51 : 512;
    TestRandom random(44);
    const std::vector<float> master = random.values<float>(outputs * inputs);
    for (const auto& backend :
         {make_reference_backend({precision}), make_native_backend({precision})}) {
      const auto weight = backend->make_weight(outputs, inputs);
      backend->refresh(*weight, master.data());
      const auto hash = [&] {
        std::uint64_t sum = 0;
        backend->hash_copies(sum, *weight);
        return sum;
      };
      const std::uint64_t before = hash();
      for (const auto& copy : weight->copies()) {
        for (std::size_t i = 0; i < copy.size(); i += 13) {
          copy[i] ^= std::byte{0x40};
          EXPECT_NE(hash(), before);
          copy[i] ^= std::byte{0x40};
        }
      }
      EXPECT_EQ(hash(), before);
    }
  }
}

}  // namespace
}  // namespace swarmpi::kernels::exact_test
