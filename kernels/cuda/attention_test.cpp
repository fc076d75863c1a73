// Attention on the GPU against the oracle: with tensor cores, and where they cannot be used.

#include <gtest/gtest.h>

#include <tuple>

#include "kernels/cuda/test_support.hpp"

namespace swarmpi::kernels::attention_test {

void PrintTo(const AttentionShape& s, std::ostream* to) {  // NOLINT(readability-identifier-naming)
  *to << s.sequences << "x" << s.context << ", " << s.heads << " heads of " << s.head_width;
}

namespace {

class AttentionOnGpu : public OnGpu,
                       public testing::WithParamInterface<std::tuple<Precision, AttentionShape>> {};

TEST_P(AttentionOnGpu, ForwardAndBackward) {
  const auto [precision, shape] = GetParam();
  const std::int64_t rows = shape.sequences * shape.context;
  const std::int64_t width = shape.heads * shape.head_width;
  const bool rounds = precision == Precision::bf16;
  expect_agreement(
      [&](Backend& backend) -> std::vector<Output> {
        WorkShape work;
        work.sequences = shape.sequences;
        work.context = shape.context;
        work.heads = shape.heads;
        work.width = work.hidden = width;
        backend.reserve(work);
        Matrices on(backend);
        TestRandom random(11);
        // Values that bf16 holds: the reference keeps its factors in fp32.
        const auto values = [&](std::int64_t count, double scale) {
          std::vector<float> v = random.values<float>(count, scale);
          for (float& x : v) x = round_to_bf16(x);
          return v;
        };
        const FactorMatrix qkv =
            on.filled(on.factor(rows, 3 * width), values(rows * 3 * width, 2.0));
        const FactorMatrix dout = on.filled(on.factor(rows, width), values(rows * width, 1.0));
        const FactorMatrix out = on.factor(rows, width), dqkv = on.factor(rows, 3 * width);
        float* const log_sum = on.vector(rows * shape.heads);
        backend.attention_forward(out, log_sum, qkv, shape);
        backend.attention_backward(dqkv, dout, qkv, out, log_sum, shape);
        return {{"out", on.elements(out), rounds ? 0x1.8p-8 : 1e-5},
                {"log_sum", on.elements(log_sum, rows * shape.heads), 1e-5},
                {"dqkv", on.elements(dqkv), rounds ? 0x1.8p-7 : 3e-5}};
      },
      precision);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionOnGpu,
    testing::Combine(testing::Values(Precision::fp32, Precision::bf16),
                     testing::Values(AttentionShape{1, 1, 1, 8}, AttentionShape{2, 7, 3, 5},
                                     AttentionShape{1, 64, 2, 16}, AttentionShape{2, 65, 2, 32},
                                     AttentionShape{1, 130, 3, 64}, AttentionShape{2, 129, 1, 80},
                                     AttentionShape{1, 200, 2, 96}, AttentionShape{1, 257, 2, 128},
                                     AttentionShape{1, 70, 1, 200}, AttentionShape{3, 96, 2, 24})));

}  // namespace
}  // namespace swarmpi::kernels::attention_test
