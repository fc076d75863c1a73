#pragma once
// The sizes of a stage's passes over one microbatch, in the letters of kernels/backend.hpp.

#include <cstdint>
#include <optional>

#include "config/config.hpp"
#include "kernels/backend.hpp"
#include "model/boundary.hpp"
#include "model/tensors.hpp"

namespace swarmpi {

struct StageShape {
  std::int64_t sequences = 0;       ///< B
  std::int64_t context = 0;         ///< T
  std::int64_t rows = 0;            ///< R = B T
  std::int64_t width = 0;           ///< C
  std::int64_t heads = 0;           ///< H
  std::int64_t hidden = 0;          ///< F
  std::int64_t vocab = 0;           ///< V
  std::int64_t layers = 0;          ///< of this stage
  std::int64_t layers_per_set = 1;  ///< consecutive layers that share one set of weights
  Boundary boundary = Boundary::plain;
  std::int64_t boundary_width = 0;  ///< W: columns of what crosses cuts
  bool narrows = false;             ///< what leaves this stage, by the boundary's layers
  bool widens = false;              ///< what comes to this stage
  std::optional<kernels::Coding> activation_coding, gradient_coding;  ///< of what crosses cuts

  StageShape(const Config& config, const StageSpec& spec)
      : sequences(config.train.microbatch_size),
        context(config.model.context),
        rows(sequences * context),
        width(config.model.width),
        heads(config.model.heads),
        hidden(config.model.hidden()),
        vocab(config.model.vocab),
        layers(spec.end_layer - spec.first_layer),
        layers_per_set(config.model.layers / config.model.layer_sets()),
        boundary(config.swarm.boundary),
        boundary_width(config.swarm.boundary_width(width)),
        narrows(boundary != Boundary::plain && !spec.has_head),
        widens(boundary != Boundary::plain && !spec.has_embedding),
        activation_coding(swarmpi::activation_coding(config.swarm)),
        gradient_coding(swarmpi::gradient_coding(config.swarm)) {}

  BoundaryFormat activations_format() const { return {rows, boundary_width, activation_coding}; }
  BoundaryFormat gradients_format() const { return {rows, boundary_width, gradient_coding}; }
  bool shares_layers() const { return layers_per_set > 1; }
  kernels::WorkShape work() const { return {sequences, context, width, heads, hidden, vocab}; }
  kernels::AttentionShape attention() const { return {sequences, context, heads, width / heads}; }
};

}  // namespace swarmpi
