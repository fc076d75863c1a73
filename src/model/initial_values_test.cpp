#include "model/initial_values.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace swarmpi::initial_values_test {
namespace {

std::vector<float> values_of(const TensorInfo& tensor, const ModelConfig& model,
                             std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(tensor.count()));
  set_initial_values(values.data(), tensor, model, seed);
  return values;
}

double moment(const std::vector<float>& values, int power) {
  double sum = 0;
  for (const float v : values) sum += std::pow(v, power);
  return sum / static_cast<double>(values.size());
}

TEST(InitialValues, MatricesAreNormalWithTheDeviationOfGpt2) {
  ModelConfig model;
  model.layers = 8;
  for (const TensorInfo& tensor : model_tensors(model)) {
    const std::vector<float> values = values_of(tensor, model, 7);
    if (!tensor.is_matrix()) {
      const bool ones = tensor.name.ends_with("norm.weight") ||
                        tensor.name.ends_with("norm1.weight") ||
                        tensor.name.ends_with("norm2.weight");
      for (const float v : values) ASSERT_EQ(v, ones ? 1.0f : 0.0f) << tensor.name;
      continue;
    }
    const bool residual =
        tensor.role == TensorRole::projection_weight || tensor.role == TensorRole::down_weight;
    const double deviation = residual ? 0.02 / 4 : 0.02;
    const double n = static_cast<double>(values.size());
    // Five standard errors of each statistic of a normal distribution.
    EXPECT_NEAR(moment(values, 1) / deviation, 0, 5 / std::sqrt(n)) << tensor.name;
    EXPECT_NEAR(moment(values, 2) / std::pow(deviation, 2), 1, 5 * std::sqrt(2 / n)) << tensor.name;
    EXPECT_NEAR(moment(values, 4) / std::pow(deviation, 4), 3, 5 * std::sqrt(96 / n))
        << tensor.name;
  }
}

TEST(InitialValues, DependOnSeedTensorAndElementAlone) {
  ModelConfig small;
  small.vocab = 256;
  ModelConfig large = small;
  large.vocab = 300;
  const auto first = values_of(model_tensors(small)[0], small, 1);
  const auto longer = values_of(model_tensors(large)[0], large, 1);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), longer.begin()));
  EXPECT_NE(first, values_of(model_tensors(small)[0], small, 2));
  TensorInfo other = model_tensors(small)[0];
  other.id = 5;
  EXPECT_NE(first, values_of(other, small, 1));
}

}  // namespace
}  // namespace swarmpi::initial_values_test
