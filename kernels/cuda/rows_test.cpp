// What works row by row on the GPU, against the oracle: norms, embedding, head, maxout, copies.

#include <gtest/gtest.h>

#include <tuple>

#include "kernels/cuda/test_support.hpp"

namespace swarmpi::kernels::rows_test {
namespace {

struct Size {
  std::int64_t rows, columns;
};
void PrintTo(const Size& size, std::ostream* to) {  // NOLINT(readability-identifier-naming)
  *to << size.rows << "x" << size.columns;
}

class RowsOnGpu : public OnGpu, public testing::WithParamInterface<std::tuple<Precision, Size>> {
 protected:
  Precision precision() const { return std::get<0>(GetParam()); }
  std::int64_t rows() const { return std::get<1>(GetParam()).rows; }
  std::int64_t columns() const { return std::get<1>(GetParam()).columns; }
  double as_factor() const { return precision() == Precision::bf16 ? 0x1p-8 : 1e-5; }
};

TEST_P(RowsOnGpu, LayerNorm) {
  expect_agreement(
      [&](Backend& backend) -> std::vector<Output> {
        Matrices on(backend);
        TestRandom random(3);
        const std::int64_t count = rows() * columns();
        const Matrix x = on.filled(on.matrix(rows(), columns()), random.values<float>(count, 2.0));
        const Matrix dy = on.filled(on.matrix(rows(), columns()), random.values<float>(count));
        const Matrix dx = on.filled(on.matrix(rows(), columns()), random.values<float>(count));
        float* const weight = on.filled_vector(random.values<float>(columns()));
        float* const bias = on.filled_vector(random.values<float>(columns()));
        float* const dweight = on.filled_vector(random.values<float>(columns()));
        float* const dbias = on.filled_vector(random.values<float>(columns()));
        float *const mean = on.vector(rows()), *const rstd = on.vector(rows());
        const FactorMatrix y = on.factor(rows(), columns()), copy = on.factor(rows(), columns());
        backend.layer_norm_forward(y, mean, rstd, x, weight, bias);
        backend.layer_norm_backward(dx, copy, dweight, dbias, Write::add, dy, x, mean, rstd,
                                    weight);
        const Matrix alone =
            on.filled(on.matrix(rows(), columns()), std::vector<float>(std::size_t(count)));
        float *const dweight_set = on.vector(columns()), *const dbias_set = on.vector(columns());
        backend.layer_norm_backward(alone, {}, dweight_set, dbias_set, Write::set, dy, x, mean,
                                    rstd, weight);
        // One column has no variance: rstd is large there, and so are all errors.
        const double near = columns() == 1 ? 1e-2 : 2e-5;
        return {{"y", on.elements(y), as_factor()},
                {"mean", on.elements(mean, rows()), near},
                {"rstd", on.elements(rstd, rows()), near},
                {"dx", on.elements(dx), near},
                {"dx as a factor", on.elements(copy), std::max(near, as_factor())},
                {"dweight added", on.elements(dweight, columns()), near},
                {"dbias added", on.elements(dbias, columns()), near},
                {"dx alone", on.elements(alone), near},
                {"dweight", on.elements(dweight_set, columns()), near},
                {"dbias", on.elements(dbias_set, columns()), near}};
      },
      precision());
}

TEST_P(RowsOnGpu, Copies) {
  expect_agreement(
      [&](Backend& backend) -> std::vector<Output> {
        Matrices on(backend);
        TestRandom random(5);
        std::vector<float> values = random.values<float>(rows() * columns());
        values.front() = 1e-40f;
        const Matrix from = on.filled(on.matrix(rows(), columns()), values);
        const Matrix to = on.matrix(rows(), columns()), back = on.matrix(rows(), columns());
        const FactorMatrix factor = on.factor(rows(), columns());
        backend.copy(to, from);
        backend.copy_factor(factor, from);
        std::vector<float> out(values.size());
        backend.copy_out(out.data(), from);
        backend.finish();
        backend.copy_in(back, out.data());
        return {{"copy", on.elements(to), 0},
                {"factor", on.elements(factor), as_factor()},
                {"to the host", out, 0},
                {"from the host", on.elements(back), 0}};
      },
      precision());
}

INSTANTIATE_TEST_SUITE_P(Sizes, RowsOnGpu,
                         testing::Combine(testing::Values(Precision::fp32, Precision::bf16),
                                          testing::Values(Size{1, 1}, Size{3, 7}, Size{65, 64},
                                                          Size{130, 100}, Size{33, 768},
                                                          Size{257, 1030}, Size{40, 4096})));

class TokensOnGpu : public OnGpu, public testing::WithParamInterface<Precision> {};

TEST_P(TokensOnGpu, Embedding) {
  constexpr std::int64_t kContext = 33, kRows = 3 * kContext, kVocabulary = 50, kWidth = 70;
  expect_agreement(
      [&](Backend& backend) -> std::vector<Output> {
        Matrices on(backend);
        TestRandom random(13);
        const std::vector<std::int32_t> tokens = random.tokens(kRows, kVocabulary);
        float* const table = on.filled_vector(random.values<float>(kVocabulary * kWidth));
        float* const positions = on.filled_vector(random.values<float>(kContext * kWidth));
        const Matrix x = on.matrix(kRows, kWidth);
        const Matrix dx = on.filled(on.matrix(kRows, kWidth), random.values<float>(kRows * kWidth));
        const Matrix dtable = on.matrix(kVocabulary, kWidth);
        const Matrix dpositions = on.matrix(kContext, kWidth);
        backend.embed_forward(x, tokens.data(), table, positions, kContext);
        backend.embed_backward(dtable, dpositions, dx, tokens.data());
        return {{"x", on.elements(x), 0},
                {"dtable", on.elements(dtable), 1e-6},
                {"dpositions", on.elements(dpositions), 1e-6}};
      },
      GetParam());
}

TEST_P(TokensOnGpu, LossWithItsGradients) {
  for (const std::int64_t vocabulary : {3, 256, 1031}) {
    constexpr std::int64_t kRows = 300, kWidth = 64;
    expect_agreement(
        [&](Backend& backend) -> std::vector<Output> {
          backend.reserve({.sequences = 1,
                           .context = kRows,
                           .width = kWidth,
                           .heads = 1,
                           .hidden = kWidth,
                           .vocabulary = vocabulary});
          Matrices on(backend);
          TestRandom random(17);
          std::vector<std::int32_t> targets = random.tokens(kRows, vocabulary);
          const FactorMatrix x =
              on.filled(on.factor(kRows, kWidth), random.values<float>(kRows * kWidth, 2.0));
          float* const master = on.filled_vector(random.values<float>(vocabulary * kWidth));
          const auto weight = backend.make_weight(vocabulary, kWidth);
          backend.refresh(*weight, master);
          const Matrix dx = on.matrix(kRows, kWidth), dweight = on.matrix(vocabulary, kWidth);
          double loss = -1, again = -1, of_some = -1;
          backend.head_loss(loss, x, *weight, targets.data());
          backend.head_loss_backward(again, dx, dweight, x, *weight, targets.data());
          for (std::size_t i = 0; i < targets.size(); i += 3) targets[i] = kNoTarget;
          backend.head_loss(of_some, x, *weight, targets.data());
          backend.finish();
          EXPECT_EQ(loss, again) << "the same loss, with gradients and without";
          const double rounded = GetParam() == Precision::bf16 ? 0x1p-8 : 1e-5;
          return {{"loss", {float(loss)}, 1e-5},
                  {"loss of some", {float(of_some)}, 1e-5},
                  {"dx", on.elements(dx), rounded},
                  {"dW", on.elements(dweight), rounded}};
        },
        GetParam());
  }
}

TEST_P(TokensOnGpu, Maxout) {
  for (const std::int64_t group : {2, 4, 5}) {
    constexpr std::int64_t kRows = 37, kGroups = 21;
    expect_agreement(
        [&](Backend& backend) -> std::vector<Output> {
          Matrices on(backend);
          TestRandom random(19);
          const std::int64_t columns = group * kGroups;
          std::vector<float> values = random.values<float>(kRows * columns);
          for (std::size_t i = 0; i + 1 < values.size(); i += 7) values[i] = values[i + 1];
          const Matrix x = on.filled(on.matrix(kRows, columns), values);
          const Matrix dy =
              on.filled(on.matrix(kRows, kGroups), random.values<float>(kRows * kGroups));
          const Matrix y = on.matrix(kRows, kGroups), dx = on.matrix(kRows, columns);
          backend.group_max_forward(y, x);
          backend.group_max_backward(dx, dy, x);
          return {{"y", on.elements(y), 0}, {"dx", on.elements(dx), 0}};
        },
        GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, TokensOnGpu,
                         testing::Values(Precision::fp32, Precision::bf16));

}  // namespace
}  // namespace swarmpi::kernels::rows_test
