#include "model/initial_values.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/random.hpp"
#include "kernels/portable_math.hpp"

namespace swarmpi {
namespace {

constexpr double kDeviation = 0.02;
constexpr double kTwoPi = 6.28318530717958647692;
constexpr std::int64_t kBlock = 4;  // normal numbers from one Philox block

/// Four standard normal numbers (Box and Muller, 1958).
std::array<double, kBlock> normal_block(std::uint64_t seed, std::int32_t tensor,
                                        std::int64_t block) {
  const PhiloxBlock words = philox(seed, Stream::initial_values, static_cast<std::uint32_t>(tensor),
                                   static_cast<std::uint64_t>(block));
  std::array<double, kBlock> out{};
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const double radius = std::sqrt(-2 * kernels::portable_log(uniform(words[2 * pair])));
    const double angle = kTwoPi * uniform(words[2 * pair + 1]);
    out[2 * pair] = radius * kernels::portable_cos(angle);
    out[2 * pair + 1] = radius * kernels::portable_sin(angle);
  }
  return out;
}

void set_normal(float* values, const TensorInfo& tensor, std::uint64_t seed, double deviation) {
  for (std::int64_t first = 0; first < tensor.count(); first += kBlock) {
    const auto block = normal_block(seed, tensor.id, first / kBlock);
    const std::int64_t n = std::min(kBlock, tensor.count() - first);
    for (std::int64_t i = 0; i < n; ++i) {
      values[first + i] = static_cast<float>(deviation * block[static_cast<std::size_t>(i)]);
    }
  }
}

}  // namespace

void set_initial_values(float* values, const TensorInfo& tensor, const ModelConfig& model,
                        std::uint64_t seed) {
  switch (tensor.role) {
    case TensorRole::token_table:
    case TensorRole::position_table:
    case TensorRole::qkv_weight:
    case TensorRole::up_weight:
    case TensorRole::head_weight:
      return set_normal(values, tensor, seed, kDeviation);
    case TensorRole::narrowing_weight:
    case TensorRole::widening_weight:
      return set_normal(values, tensor, seed, 1 / std::sqrt(static_cast<double>(tensor.columns)));
    case TensorRole::projection_weight:
    case TensorRole::down_weight:
      return set_normal(values, tensor, seed,
                        kDeviation / std::sqrt(2.0 * static_cast<double>(model.layers)));
    case TensorRole::norm1_weight:
    case TensorRole::norm2_weight:
    case TensorRole::final_norm_weight:
    case TensorRole::narrowing_norm_weight:
      std::fill_n(values, tensor.count(), 1.0f);
      return;
    case TensorRole::norm1_bias:
    case TensorRole::qkv_bias:
    case TensorRole::projection_bias:
    case TensorRole::norm2_bias:
    case TensorRole::up_bias:
    case TensorRole::down_bias:
    case TensorRole::final_norm_bias:
    case TensorRole::narrowing_bias:
    case TensorRole::narrowing_norm_bias:
    case TensorRole::widening_bias:
      std::fill_n(values, tensor.count(), 0.0f);
      return;
  }
}

}  // namespace swarmpi
