// Weights packed in panels: the elements are where oneDNN wants them, and its products with them
// are those with plain weights. Panels are chosen here, for few processors ask for them.

#include "kernels/native/weight.hpp"

#include <dnnl.hpp>

#include "kernels/bfloat16.hpp"
#include "kernels/native/optimizer.hpp"
#include "kernels/native/test_support.hpp"
#include "kernels/native/tile.hpp"

namespace swarmpi::kernels::native::weight_test {
namespace {

using dnnl::memory;

struct WeightCase {
  std::int64_t outputs, inputs;
  PanelColumns panels;
};

memory::format_tag tag_of(std::int64_t panel_columns) {
  switch (panel_columns) {
    case 16:
      return memory::format_tag::BA16a16b2a;
    case 32:
      return memory::format_tag::BA16a32b2a;
    case 48:
      return memory::format_tag::BA16a48b2a;
    default:
      return memory::format_tag::BA16a64b2a;
  }
}

class PackedWeightTest : public testing::TestWithParam<WeightCase> {
 protected:
  void SetUp() override {
    if (!products_.rounds() || products_.element() != Element::bf16) {
      GTEST_SKIP() << "no products of bf16 here";
    }
    weight_ = std::make_unique<NativeWeight>(products_, p_.outputs, p_.inputs, p_.panels);
    plain_ = std::make_unique<NativeWeight>(products_, p_.outputs, p_.inputs, PanelColumns{});
    for (NativeWeight* weight : {weight_.get(), plain_.get()}) {
      weight->refresh(products_, old_.data(), scratch_);
      weight->refresh(products_, master_.data(), scratch_);
    }
  }
  /// The master, transposed or not, as oneDNN reorders it into panels.
  std::vector<std::uint16_t> reordered(bool transposed, std::int64_t panel_columns) {
    const std::int64_t rows = transposed ? p_.inputs : p_.outputs;
    const std::int64_t columns = transposed ? p_.outputs : p_.inputs;
    std::vector<std::uint16_t> rounded;
    for (const float x : master_) rounded.push_back(bf16_from_float(x));
    const auto strides = transposed ? memory::dims{1, rows} : memory::dims{columns, 1};
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    memory from({{rows, columns}, memory::data_type::bf16, strides}, engine, rounded.data());
    const memory::desc wanted({rows, columns}, memory::data_type::bf16, tag_of(panel_columns));
    std::vector<std::uint16_t> panels(wanted.get_size() / sizeof(std::uint16_t));
    memory to(wanted, engine, panels.data());
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
    return panels;
  }
  static std::vector<std::uint16_t> elements(const Factor& factor, std::size_t count) {
    const auto* const data = static_cast<const std::uint16_t*>(factor.data);
    return {data, data + count};
  }
  /// a (rows, inner) times a weight.
  std::vector<float> product(const Factor& right, std::int64_t inner, std::int64_t columns) {
    constexpr std::int64_t kRows = 9;
    TestRandom random(61);
    const Padded a(kRows, inner, inner, random);
    std::vector<float> c(static_cast<std::size_t>(kRows * columns));
    const Factor left = products_.factor(ConstFactor(ConstMatrix(a.matrix())), a_copy_);
    products_.multiply({c.data(), kRows, columns}, left, right, inner, Write::set);
    return c;
  }
  void expect_near(const std::vector<float>& a, const std::vector<float>& b, std::int64_t inner) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], 4 * kUnit * static_cast<double>(inner)) << i;
    }
  }

  WeightCase p_ = GetParam();
  TestRandom random_{60};
  std::vector<float> old_ = random_.values<float>(p_.outputs * p_.inputs);
  std::vector<float> master_ = random_.values<float>(p_.outputs * p_.inputs);
  Products products_{Precision::bf16, true};
  Scratch scratch_, a_copy_;
  std::unique_ptr<NativeWeight> weight_, plain_;
};

TEST_P(PackedWeightTest, ElementsLieAsOneDnnHasThem) {
  const auto forward = reordered(true, p_.panels.forward);
  const auto backward = reordered(false, p_.panels.backward);
  EXPECT_EQ(elements(weight_->forward(), forward.size()), forward);
  EXPECT_EQ(elements(weight_->backward(), backward.size()), backward);
}

TEST_P(PackedWeightTest, RoundedProductsAreThoseOfPlainWeights) {
  constexpr std::int64_t kRows = 9;
  const Padded x(kRows, p_.inputs, p_.inputs, random_);
  const auto bias = random_.values<float>(p_.outputs);
  const Factor left = products_.factor(ConstFactor(ConstMatrix(x.matrix())), a_copy_);
  std::vector<std::vector<std::uint16_t>> results;
  for (const NativeWeight* weight : {weight_.get(), plain_.get()}) {
    auto& y = results.emplace_back(static_cast<std::size_t>(kRows * p_.outputs));
    products_.multiply_to_factor({y.data(), kRows, p_.outputs, p_.outputs, Element::bf16}, left,
                                 weight->forward(), p_.inputs, bias.data());
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    const float a = float_from_bf16(results[0][i]), b = float_from_bf16(results[1][i]);
    ASSERT_NEAR(a, b, 2 * kBf16Unit * std::max(1.0f, std::abs(b))) << i;
  }
}

TEST_P(PackedWeightTest, ProductsAreThoseOfPlainWeights) {
  expect_near(product(weight_->forward(), p_.inputs, p_.outputs),
              product(plain_->forward(), p_.inputs, p_.outputs), p_.inputs);
  expect_near(product(weight_->backward(), p_.outputs, p_.inputs),
              product(plain_->backward(), p_.outputs, p_.inputs), p_.outputs);
}

TEST_P(PackedWeightTest, IsRefreshedAsItsRowsAreMade) {
  const auto hash = [&] {
    std::uint64_t sum = 0;
    for (const auto copy : weight_->copies()) sum = joined_hash(sum, hash_bytes(copy, a_copy_));
    return sum;
  };
  const std::uint64_t before = hash();
  std::vector<float> made(master_.size(), std::nanf(""));
  std::vector<int> times(static_cast<std::size_t>(p_.outputs));
  const auto hashes =
      weight_->make_and_refresh(products_, made.data(), scratch_, [&](std::int64_t r) {
        ++times[static_cast<std::size_t>(r)];
        std::copy_n(old_.data() + r * p_.inputs, p_.inputs, made.data() + r * p_.inputs);
      });
  EXPECT_EQ(times, std::vector<int>(times.size(), 1));
  EXPECT_EQ(hashes.before, before);
  EXPECT_EQ(hashes.after, hash());
  weight_->refresh(products_, old_.data(), scratch_);
  EXPECT_EQ(hash(), hashes.after);
  EXPECT_NE(hashes.after, before);
}

INSTANTIATE_TEST_SUITE_P(Shapes, PackedWeightTest,
                         testing::Values(WeightCase{64, 64, {64, 64}},
                                         WeightCase{160, 96, {64, 32}},
                                         WeightCase{97, 51, {16, 48}},
                                         WeightCase{48, 200, {48, 64}}, WeightCase{5, 3, {32, 16}},
                                         WeightCase{131, 70, {48, 16}}));

TEST(WeightTest, IsPackedAsOneDnnAsks) {
  const Products products(Precision::bf16, true);
  // oneDNN 2.6's kernels of panels are for AVX-512 with bf16 and later.
  if (dnnl::get_effective_cpu_isa() < dnnl::cpu_isa::avx512_core_bf16) GTEST_SKIP() << "no bf16";
  for (const std::int64_t width : {32, 96, 128, 768}) {
    const std::int64_t outputs = 3 * width;
    const NativeWeight weight(products, outputs, width);
    EXPECT_GT(weight.forward().panel_columns, 0) << width;
    EXPECT_GT(weight.backward().panel_columns, 0) << width;
    EXPECT_GE(NativeWeight::bytes(products, outputs, width),
              static_cast<std::size_t>(2 * outputs * width) * sizeof(std::uint16_t));
  }
}

TEST(WeightTest, IsNotPackedWithoutAmxNorInFp32) {
  EXPECT_EQ(Products(Precision::bf16, false).panel_columns(96, 64), 0);
  EXPECT_EQ(Products(Precision::fp32, true).panel_columns(96, 64), 0);
  const Products fp32(Precision::fp32);
  EXPECT_EQ(NativeWeight(fp32, 96, 63).forward().panel_columns, 0);
  EXPECT_EQ(NativeWeight::bytes(fp32, 96, 63), 0u);
  EXPECT_GT(NativeWeight::bytes(fp32, 96, 512), 0u);  // rows 2 KiB apart
}

}  // namespace
}  // namespace swarmpi::kernels::native::weight_test
