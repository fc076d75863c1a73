#include "commands/bench/model_bound.hpp"

#include <gtest/gtest.h>

#include "commands/bench/bench.hpp"
#include "model/make_backend.hpp"
#include "model/tensors.hpp"

namespace swarmpi::model_bound_test {
namespace {

TEST(ModelBoundTest, IsWhatItsFormulasSay) {
  const Config config =
      bench_config({"model.layers=2", "model.width=32", "model.heads=2", "model.context=16",
                    "model.vocab=64", "train.microbatch_size=2", "train.microbatches=3"})
          .value();
  const auto backend = make_backend(config).value();
  backend->prepare_thread();
  const ModelBound bound = measure_bound(config, *backend);

  const double rows = 3 * 2 * 16;
  const auto parameters = static_cast<double>(parameter_count(config.model));
  EXPECT_DOUBLE_EQ(bound.update_s, parameters * 28 / 25e9);
  EXPECT_DOUBLE_EQ(bound.gelu_s, 2 * rows * 128 * 1.1e-9);
  EXPECT_GT(bound.pointwise_s, 0);
  // Attention at the rate of the products: 60 % of 12 L T d a token over 72 L d^2 + 6 V d.
  EXPECT_GT(bound.products_s, 0);
  const double share = 0.6 * 12 * 2 * 16 * 32 / (72.0 * 2 * 32 * 32 + 6 * 64 * 32);
  EXPECT_NEAR(bound.attention_s / bound.products_s, share, 1e-9);
  EXPECT_DOUBLE_EQ(bound.total_s(), bound.products_s + bound.attention_s + bound.gelu_s +
                                        bound.pointwise_s + bound.update_s);
}

}  // namespace
}  // namespace swarmpi::model_bound_test
