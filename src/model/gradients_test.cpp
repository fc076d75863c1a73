#include "model/gradients.hpp"

#include <gtest/gtest.h>

#include "model/make_backend.hpp"

namespace swarmpi::gradients_test {
namespace {

/// Elements that the gradients of one of two stages take.
std::int64_t elements(const Config& config, kernels::Backend& backend, std::size_t stage) {
  const StageSpec spec = partition_model(config.model, 2)[stage];
  Layout layout(nullptr, backend);
  lay_out_gradients(layout, StageShape(config, spec), spec.tensors);
  return layout.size_bytes() / static_cast<std::int64_t>(sizeof(float));
}

Config wide() {
  Config config;
  config.model.layers = 4;
  config.model.width = 512;
  config.model.heads = 4;
  config.model.context = 16;
  config.model.vocab = 20;
  config.compute.kernels = Kernels::native;
  return config;
}

TEST(Gradients, OfWeightsTakeOneStripWhereTheBackendMakesStrips) {
  Config config = wide();
  const auto strips = make_backend(config).value();
  config.compute.kernels = Kernels::reference;
  const auto whole = make_backend(config).value();
  constexpr std::int64_t kLargest = std::int64_t{4} * 512 * 512;
  EXPECT_LT(elements(config, *strips, 1), kLargest);
  EXPECT_GT(elements(config, *whole, 1), kLargest);
}

TEST(Gradients, OfTheHeadAreMadeWholeAndOfTheTableOnlyWhereItWasRead) {
  Config config = wide();
  config.model.vocab = 3000;
  const auto backend = make_backend(config).value();
  EXPECT_LT(elements(config, *backend, 0), std::int64_t{3000} * 512);
  EXPECT_GT(elements(config, *backend, 1), std::int64_t{3000} * 512);
}

TEST(Gradients, OfTokensThatWereReadInAStepBeforeAreGone) {
  Config config = wide();
  const auto backend = make_backend(config).value();
  backend->prepare_thread();
  const StageSpec spec = partition_model(config.model, 2)[0];
  const StageTensors tensors(spec);
  GradientBuffers buffers;
  const auto memory = allocate_layout(*backend, [&](Layout& layout) {
    buffers = lay_out_gradients(layout, StageShape(config, spec), spec.tensors);
  });
  StepSums sums(tensors, *backend);
  const Exponents exponents(100, 1);
  const std::size_t table = tensors.place(TensorRole::token_table);
  const auto read = [&](std::vector<std::int32_t> rows) {
    MicrobatchGradients gradients(buffers, tensors, *backend, sums, exponents, 40);
    const kernels::Matrix room = gradients.token_rows(rows);
    for (std::int64_t r = 0; r < room.rows; ++r) std::fill_n(room.row(r), room.columns, 1.0f);
    gradients.add_token_rows(rows);
    EXPECT_FALSE(gradients.take()[table].flagged());
  };
  const auto sums_of = [&](std::int64_t token) {
    return sums.data()[tensors.offset(table) + token * config.model.width];
  };
  read({3, 7});
  read({7});
  EXPECT_EQ(sums_of(7), 2 * sums_of(3));
  sums.clear();
  read({5});
  EXPECT_EQ(sums_of(7), 0);
  EXPECT_EQ(sums_of(3), 0);
  EXPECT_GT(sums_of(5), 0);
}

TEST(Gradients, OfSharedLayersAreKeptWholeUntilAllLayersHaveAdded) {
  Config config = wide();
  config.model.shared_groups = 2;
  const auto backend = make_backend(config).value();
  EXPECT_GT(elements(config, *backend, 1), std::int64_t{12} * 512 * 512);
}

}  // namespace
}  // namespace swarmpi::gradients_test
