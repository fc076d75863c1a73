// The keys of [model].

#include "config/schema/keys.hpp"

namespace swarmpi {
namespace {

template <auto member>
Field model() {
  return field_at<&in_section<&Config::model, member>>();
}

constexpr double kMostLayers = 4096;
constexpr double kLargestSize = 1 << 24;

}  // namespace

Keys model_keys() {
  using M = ModelConfig;
  return {
      {.name = "layers",
       .field = model<&M::layers>(),
       .range = from_to(1, kMostLayers),
       .help = "number of Transformer layers"},
      {.name = "width",
       .field = model<&M::width>(),
       .range = from_to(1, kLargestSize),
       .help = "width of the residual stream; model.heads must divide it"},
      {.name = "heads",
       .field = model<&M::heads>(),
       .range = from_to(1, kLargestSize),
       .help = "attention heads of a layer"},
      {.name = "ffn",
       .field = model<&M::ffn>(),
       .range = from_to(0, kLargestSize),
       .help = "hidden units of a feed-forward layer; 0: four times model.width"},
      {.name = "context",
       .field = model<&M::context>(),
       .unit = "tokens",
       .range = from_to(1, kLargestSize),
       .help = "length of a sequence: how many tokens the model sees at once"},
      {.name = "vocab",
       .field = model<&M::vocab>(),
       .unit = "tokens",
       .range = from_to(1, kLargestSize),
       .help = "number of distinct tokens; every token of the data must be below it"},
      {.name = "shared_groups",
       .field = model<&M::shared_groups>(),
       .range = from_to(0, kMostLayers),
       .help = "groups of consecutive layers that share their weights, as in ALBERT; must divide "
               "model.layers; 0: no layers share"},
      {.name = "precision",
       .field = model<&M::precision>(),
       .help = "type of the factors of matrix products; sums, gradients and master weights are "
               "fp32 in any case"},
      {.name = "initial",
       .field = model<&M::initial>(),
       .on_resume = kMayChange,
       .help = "file of the weights to begin with, as postprocess/hf_import.py makes it; those of "
               "learned boundaries, which it does not have, are drawn from train.seed; empty: all "
               "are"},
      {.name = "initial_hash",
       .field = model<&M::initial_hash>(),
       .help = "hash that these weights must have, 16 hexadecimal digits in lower case; others are "
               "refused; empty: not checked"},
  };
}

}  // namespace swarmpi
