// A weight's gradient straight into its sums: what the whole gradient and add_gradient() would do.

#include "kernels/fixed_point_element.hpp"
#include "kernels/native/product.hpp"
#include "kernels/native/test_support.hpp"
#include "kernels/rounding_mode.hpp"

namespace swarmpi::kernels::weight_gradient_test {
namespace {

constexpr std::int64_t kNoted = 12345;  ///< what stands in sums before

struct Answer {
  Contribution contribution;
  std::vector<std::int64_t> sums;
  std::vector<float> bias_gradient;
};

void expect_equal(const Answer& answer, const Answer& expected) {
  EXPECT_EQ(answer.contribution.exponent, expected.contribution.exponent);
  EXPECT_EQ(answer.contribution.nonfinite, expected.contribution.nonfinite);
  EXPECT_EQ(answer.contribution.overflow, expected.contribution.overflow);
  EXPECT_TRUE(answer.sums == expected.sums);
  EXPECT_TRUE(same_bits(answer.bias_gradient, expected.bias_gradient));
}

/// A layer whose gradients have the same bits however its products are summed: factors are small
/// integers.
struct Layer {
  std::int64_t rows, outputs, inputs;
  std::int16_t exponent = 8;
  int bits = 20;  // units of 16: most gradients are rounded, some at a tie
  Padded dy{rows, outputs, outputs + 3};
  Padded x{rows, inputs, inputs + 5};

  Layer(std::int64_t r, std::int64_t n, std::int64_t k) : rows(r), outputs(n), inputs(k) {
    TestRandom random(static_cast<unsigned>(r * n + k));
    for (Padded* factor : {&dy, &x}) {
      const Matrix m = factor->matrix();
      for (std::int64_t i = 0; i < m.rows; ++i) {
        for (std::int64_t j = 0; j < m.columns; ++j) {
          m.row(i)[j] = static_cast<float>(random.below(9) - 4);
        }
      }
    }
  }
  std::size_t count() const { return static_cast<std::size_t>(outputs * inputs); }

  Answer whole(Backend& backend, Write write) const {
    Answer answer = before();
    std::vector<float> gradient(count());
    const Matrix view(gradient.data(), outputs, inputs);
    backend.linear_backward_weight(view, answer.bias_gradient.data(), Write::set, dy.matrix(),
                                   x.matrix());
    backend.add_gradient(answer.contribution, answer.sums.data(), write, view, exponent, bits);
    return answer;
  }
  Answer at_once(Backend& backend, Write write) const {
    Answer answer = before();
    Padded room(backend.weight_gradient_rows(outputs), inputs, inputs + 7);
    backend.add_weight_gradient(answer.contribution, answer.sums.data(), write, room.matrix(),
                                answer.bias_gradient.data(), dy.matrix(), x.matrix(), exponent,
                                bits);
    room.elements();  // its padding is as it was
    return answer;
  }

 private:
  Answer before() const {
    return {{},
            std::vector<std::int64_t>(count(), kNoted),
            std::vector<float>(static_cast<std::size_t>(outputs))};
  }
};

using Check = std::function<void(Backend&, Write)>;

void on_all_backends(const Check& check) {
  set_rounding_mode();
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const int threads : {1, 2}) {
      const BackendOptions options{precision, threads, MaxIsa::any};
      for (const auto make : {make_reference_backend, make_native_backend}) {
        const auto backend = make(options);
        backend->prepare_thread();
        for (const Write write : {Write::set, Write::add}) {
          SCOPED_TRACE(backend->name() + (precision == Precision::bf16 ? ", bf16" : ", fp32") +
                       (write == Write::set ? ", set" : ", add"));
          check(*backend, write);
        }
      }
    }
  }
}

TEST(WeightGradientTest, AddsWhatTheWholeGradientWould) {
  for (const auto& [rows, outputs, inputs] :
       {std::tuple{1, 1, 1}, {5, 1, 3}, {67, 61, 59}, {33, 256, 8}, {20, 257, 31}, {9, 1111, 13}}) {
    const Layer layer(rows, outputs, inputs);
    on_all_backends([&](Backend& backend, Write write) {
      const Answer expected = layer.whole(backend, write);
      EXPECT_FALSE(expected.contribution.flagged());
      expect_equal(layer.at_once(backend, write), expected);
    });
  }
}

TEST(WeightGradientTest, NativeStripsAreLowerThanTheMatrixInFp32AndInTiles) {
  const auto one = make_native_backend({Precision::fp32, 1, MaxIsa::any});
  EXPECT_LT(one->weight_gradient_rows(1111), 600);
  EXPECT_EQ(one->weight_gradient_rows(7), 7);
  const auto two = make_native_backend({Precision::fp32, 2, MaxIsa::any});
  EXPECT_LT(two->weight_gradient_rows(1111), 1111);
  const auto bf16 = make_native_backend({Precision::bf16, 1, MaxIsa::any});
  if (bf16->factor_element() == Element::bf16) {
    EXPECT_EQ(bf16->weight_gradient_rows(1111) == 1111,
              !native::Products(Precision::bf16).has_tiles());
  }
}

TEST(WeightGradientTest, IsNearTheReferences) {
  constexpr std::int64_t kRows = 150, kOutputs = 700, kInputs = 45, kCount = kOutputs * kInputs;
  TestRandom random(83);
  const Padded dy(kRows, kOutputs, kOutputs, random), x(kRows, kInputs, kInputs, random);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    expect_agreement(
        [&](Backend& backend) {
          std::vector<std::int64_t> sums(kCount);
          std::vector<float> gradient(kCount);
          std::vector<double> squares(kCount / 4096 + 1);
          Padded room(backend.weight_gradient_rows(kOutputs), kInputs, kInputs);
          Contribution did;
          backend.add_weight_gradient(did, sums.data(), Write::set, room.matrix(), nullptr,
                                      dy.matrix(), x.matrix(), 8, 50);
          backend.round_sums(gradient.data(), squares.data(), sums.data(), kCount,
                             quantum_per_token(quantum_exponent(8, 50), 1));
          return std::vector<Output>{{"gradient", gradient, 4 * kUnit * (kRows + 4)}};
        },
        precision);
  }
}

/// One output's gradient is odd in a way: the microbatch is flagged, as for the whole gradient, and
/// the sums stay what they were, or zero where they are set.
void expect_nothing_added(const Layer& layer, bool nonfinite) {
  on_all_backends([&](Backend& backend, Write write) {
    const Answer answer = layer.at_once(backend, write);
    expect_equal(answer, layer.whole(backend, write));
    EXPECT_EQ(answer.contribution.nonfinite, nonfinite);
    EXPECT_EQ(answer.contribution.overflow, !nonfinite);
    EXPECT_TRUE(answer.sums ==
                std::vector<std::int64_t>(layer.count(), write == Write::set ? 0 : kNoted));
  });
}

constexpr std::int64_t kTall = 1111, kLast = kTall - 1, kMiddle = 600;

TEST(WeightGradientTest, OneOddElementAnywhereAndNothingIsAdded) {
  for (const std::int64_t where : {std::int64_t{0}, kMiddle, kLast}) {
    for (const float odd : {std::nanf(""), HUGE_VALF, 0x1p40f}) {
      SCOPED_TRACE(std::to_string(where) + ": " + std::to_string(odd));
      Layer layer(9, kTall, 13);
      layer.dy.matrix().row(4)[where] = odd;
      expect_nothing_added(layer, !(odd < HUGE_VALF));
    }
  }
}

TEST(WeightGradientTest, WhatIsNotFiniteHidesAnOverflow) {
  for (const auto& [nan, large] : {std::pair{std::int64_t{0}, kLast}, {kLast, std::int64_t{0}}}) {
    Layer layer(9, kTall, 13);
    layer.dy.matrix().row(4)[nan] = std::nanf("");
    layer.dy.matrix().row(5)[large] = 0x1p40f;
    expect_nothing_added(layer, true);
  }
}

TEST(WeightGradientTest, WithoutAnExponentItIsOnlyMeasured) {
  Layer layer(9, kTall, 13);
  layer.exponent = kNoExponent;
  expect_nothing_added(layer, false);
  const Matrix dy = layer.dy.matrix();  // of the first strips nothing is left that overflows
  for (std::int64_t r = 0; r < dy.rows; ++r) std::fill_n(dy.row(r), kLast, 0.0f);
  expect_nothing_added(layer, false);
}

TEST(WeightGradientTest, ZerosAreSetAndHaveNoExponent) {
  Layer layer(9, kTall, 13);
  layer.exponent = kNoExponent;
  const Matrix x = layer.x.matrix();
  for (std::int64_t r = 0; r < x.rows; ++r) std::fill_n(x.row(r), x.columns, 0.0f);
  on_all_backends([&](Backend& backend, Write write) {
    const Answer answer = layer.at_once(backend, write);
    expect_equal(answer, layer.whole(backend, write));
    EXPECT_FALSE(answer.contribution.flagged());
    EXPECT_EQ(answer.contribution.exponent, kNoExponent);
    EXPECT_EQ(answer.sums.front(), write == Write::set ? 0 : kNoted);
  });
}

}  // namespace
}  // namespace swarmpi::kernels::weight_gradient_test
