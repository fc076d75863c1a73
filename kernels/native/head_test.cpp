#include "kernels/native/head.hpp"
#include "kernels/native/test_support.hpp"

namespace swarmpi::kernels::head_test {
namespace {

struct HeadCase {
  std::int64_t rows, width, vocabulary;
  Strides strides;
  Precision precision;
};

class HeadTest : public testing::TestWithParam<HeadCase> {};

TEST_P(HeadTest, AgreesWithTheReference) {
  const auto p = GetParam();
  TestRandom random(77);
  const Padded x(p.rows, p.width, stride_of(p.width, p.strides), random);
  const std::vector<float> master = random.values<float>(p.vocabulary * p.width);
  const std::vector<std::int32_t> targets = random.tokens(p.rows, p.vocabulary);
  // A logit is a sum of `width` terms below 1; its error is the relative error of its probability.
  const auto width = static_cast<double>(p.width);
  const double logit = 4 * kUnit * (width + 8);
  const double flip = p.precision == Precision::bf16 ? 2 * kBf16Unit : 0;  // of a slope's rounding
  const auto rows = static_cast<double>(p.rows);
  const double dx_error = 2 * (logit + flip) + 8 * kUnit * std::sqrt(double(p.vocabulary));
  const double dw_error = std::sqrt(rows) * (logit + flip) + 4 * kUnit * rows;
  expect_agreement(
      [&](Backend& backend) {
        const auto weight = backend.make_weight(p.vocabulary, p.width);
        backend.refresh(*weight, master.data());
        Padded dx(p.rows, p.width, stride_of(p.width, p.strides));
        Padded dw(p.vocabulary, p.width, p.width);
        double loss = 0, same = 0;
        backend.head_loss(loss, x.matrix(), *weight, targets.data());
        backend.head_loss_backward(same, dx.matrix(), dw.matrix(), x.matrix(), *weight,
                                   targets.data());
        EXPECT_EQ(loss, same);
        const auto mean = static_cast<float>(loss / rows);
        return std::vector<Output>{{"loss", {mean}, logit + 4 * kUnit * mean},
                                   {"dx", dx.elements(), dx_error},
                                   {"dw", dw.elements(), dw_error}};
      },
      p.precision);
}

std::vector<HeadCase> head_cases() {
  std::vector<HeadCase> cases;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    cases.push_back({1, 1, 1, Strides::dense, precision});
    cases.push_back({1, 3, 2, Strides::odd, precision});
    cases.push_back({65, 24, 257, Strides::padded, precision});
    cases.push_back({19, 31, 256, Strides::dense, precision});
    cases.push_back({1200, 4, 37, Strides::padded, precision});   // more than one block of rows
    cases.push_back({20, 16, 5003, Strides::padded, precision});  // more than one block of sums
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Shapes, HeadTest, testing::ValuesIn(head_cases()));

TEST(HeadTest, RowsWithoutATargetCountNothing) {
  TestRandom random(78);
  const std::int64_t rows = 150, width = 24, vocabulary = 257;
  const Padded x(rows, width, width, random);
  const std::vector<float> master = random.values<float>(vocabulary * width);
  std::vector<std::int32_t> targets = random.tokens(rows, vocabulary);
  std::fill(targets.begin() + 77, targets.end(), kNoTarget);
  expect_agreement(
      [&](Backend& backend) {
        const auto weight = backend.make_weight(vocabulary, width);
        backend.refresh(*weight, master.data());
        double loss = 0;
        backend.head_loss(loss, x.matrix(), *weight, targets.data());
        return std::vector<Output>{{"loss", {static_cast<float>(loss / 77)}, 1e-4}};
      },
      Precision::fp32);
}

TEST(HeadBlocksTest, AreEvenAndWithinTheRoom) {
  using native::LossHead;
  EXPECT_EQ(LossHead::rows_at_once(1, 1), 16);
  EXPECT_EQ(LossHead::rows_at_once(1024, 256), 1024);
  EXPECT_EQ(LossHead::rows_at_once(1200, 37), 640);
  EXPECT_EQ(LossHead::rows_at_once(1024, 50257), 512);
  EXPECT_EQ(LossHead::rows_at_once(1984, 50257), 512);
  EXPECT_EQ(LossHead::rows_at_once(640, 151936), 160);
  EXPECT_EQ(LossHead::rows_at_once(100, std::int64_t{1} << 30), 16);
}

TEST(HeadNanTest, LossAndGradientSayIt) {
  TestRandom random(1);
  Padded x(4, 8, 8, random);
  x.matrix().row(2)[3] = std::nanf("");
  const std::vector<float> master = random.values<float>(80);
  const std::vector<std::int32_t> targets = {0, 1, 2, 3};
  auto backend = make_native_backend({});
  backend->prepare_thread();
  const auto weight = backend->make_weight(10, 8);
  backend->refresh(*weight, master.data());
  Padded dx(4, 8, 8);
  Padded dw(10, 8, 8);
  double loss = 0;
  backend->head_loss_backward(loss, dx.matrix(), dw.matrix(), x.matrix(), *weight, targets.data());
  EXPECT_TRUE(std::isnan(loss));
  EXPECT_TRUE(std::isnan(dw.matrix().row(0)[0]));
}

}  // namespace
}  // namespace swarmpi::kernels::head_test
