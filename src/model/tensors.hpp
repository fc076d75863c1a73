#pragma once
// The tensors of a GPT-2-like decoder (pre-LayerNorm, fused QKV, learned positions, untied head),
// their names, shapes and places in the global index. The order is fixed: it is the order of norms,
// exponents and hashes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "config/config.hpp"

namespace swarmpi {

/// Position of a tensor within its set of layer weights, or outside the layers.
enum class TensorRole : std::uint8_t {
  token_table,        // (V, C)
  position_table,     // (T, C)
  norm1_weight,       // (C)
  norm1_bias,         // (C)
  qkv_weight,         // (3C, C)
  qkv_bias,           // (3C)
  projection_weight,  // (C, C)
  projection_bias,    // (C)
  norm2_weight,       // (C)
  norm2_bias,         // (C)
  up_weight,          // (F, C)
  up_bias,            // (F)
  down_weight,        // (C, F)
  down_bias,          // (C)
  final_norm_weight,  // (C)
  final_norm_bias,    // (C)
  head_weight,        // (V, C)
  // Learned boundaries: W columns cross a cut. The sender narrows, the receiver widens.
  narrowing_weight,       // (W, C)
  narrowing_bias,         // (W)
  narrowing_norm_weight,  // (W)
  narrowing_norm_bias,    // (W)
  widening_weight,        // (C, W)
  widening_bias,          // (C)
};
inline constexpr std::size_t kTensorRoles = static_cast<std::size_t>(TensorRole::widening_bias) + 1;

struct TensorInfo {
  std::int32_t id = 0;  ///< place in the list of all tensors
  TensorRole role{};
  std::int64_t layer_set = -1;  ///< which set of layer weights; -1 outside the layers
  std::int64_t cut = -1;        ///< of a learned boundary: behind which stage; else -1
  std::string name;             ///< e.g. "layer.3.qkv.weight", "embedding.tokens", "head.weight"
  std::int64_t rows = 1;
  std::int64_t columns = 1;      ///< vectors: rows = 1
  std::int64_t first_index = 0;  ///< global index of its first element

  std::int64_t count() const { return rows * columns; }
  bool is_matrix() const { return rows > 1; }
};

/// All tensors of a model in one stage, by id.
std::vector<TensorInfo> model_tensors(const ModelConfig& model);
std::int64_t parameter_count(const ModelConfig& model);
/// The same of the deck's model: those of learned boundaries come after all others, cut by cut, so
/// that these begin as with plain ones.
std::vector<TensorInfo> model_tensors(const Config& config);
std::int64_t parameter_count(const Config& config);

/// What one stage holds and does.
struct StageSpec {
  std::int32_t stage = 0;
  std::int64_t first_layer = 0;  ///< global layer indices, [first, end)
  std::int64_t end_layer = 0;
  bool has_embedding = false;
  bool has_head = false;
  std::vector<TensorInfo> tensors;  ///< ascending ids
  double flops_per_token = 0;       ///< forward and backward, model FLOPs
};

/// Deals layers (whole groups where weights are shared) to stages so that the costliest stage is as
/// cheap as can be, embedding and head counted. REQUIRES: checked config (stages fit layers and
/// groups).
std::vector<StageSpec> partition_model(const ModelConfig& model, std::int64_t stages);
/// The stages of the deck's model: cut where the deck says, else dealt.
std::vector<StageSpec> partition_model(const Config& config);
/// Tensors of all these stages.
std::int64_t tensor_count(const std::vector<StageSpec>& specs);
/// Where these stages cut the model, as swarm.cuts has it.
std::vector<std::int64_t> cuts_of(const std::vector<StageSpec>& specs);

}  // namespace swarmpi
