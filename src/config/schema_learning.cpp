// The rows of [model], [data] and [train].

#include "config/schema_rows.hpp"

namespace swarmpi {
namespace {

template <auto member>
Field model() {
  return &at<&Config::model, member>;
}
template <auto member>
Field data() {
  return &at<&Config::data, member>;
}
template <auto member>
Field train() {
  return &at<&Config::train, member>;
}

constexpr double kMostLayers = 4096;
constexpr double kLargestSize = 1 << 24;

constexpr Range in_fp32(double min, double max) {
  return {.min = min, .max = max, .why = "what fp32 can work with"};
}
/// A decay that rounds to 1 would stop learning without a word.
constexpr Range decay() {
  return {.min = 0, .max = 0.99999997, .below_max = true, .why = "more is 1 in fp32"};
}

Keys model_keys() {
  using M = ModelConfig;
  return {
      {.name = "layers",
       .field = model<&M::layers>(),
       .range = from_to(1, kMostLayers),
       .help = "Transformer layers"},
      {.name = "width",
       .field = model<&M::width>(),
       .range = from_to(1, kLargestSize),
       .help = "width of the residual stream; heads divide it"},
      {.name = "heads",
       .field = model<&M::heads>(),
       .range = from_to(1, kLargestSize),
       .help = "attention heads"},
      {.name = "ffn",
       .field = model<&M::ffn>(),
       .range = from_to(0, kLargestSize),
       .help = "hidden units of the feed-forward layers; 0: four times the width"},
      {.name = "context",
       .field = model<&M::context>(),
       .unit = "tokens",
       .range = from_to(1, kLargestSize),
       .help = "tokens that the model sees at once"},
      {.name = "vocab",
       .field = model<&M::vocab>(),
       .unit = "tokens",
       .range = from_to(1, kLargestSize),
       .help = "distinct tokens; larger than any in the data"},
      {.name = "shared_groups",
       .field = model<&M::shared_groups>(),
       .range = from_to(0, kMostLayers),
       .help = "groups of layers that share weights (ALBERT); 0: no layer shares"},
      {.name = "precision",
       .field = model<&M::precision>(),
       .choices = {"fp32", "bf16"},
       .help = "factors of matrix products; sums and master weights are fp32"},
  };
}

Keys data_keys() {
  using D = DataConfig;
  return {
      {.name = "paths",
       .field = data<&D::paths>(),
       .on_resume = kMayChange,
       .help = "token files, read one after the other as one stream"},
      {.name = "format",
       .field = data<&D::format>(),
       .choices = {"bytes", "tokens_u16"},
       .help = "one byte a token, or 16 bits (nanoGPT's without header, llm.c's with)"},
      {.name = "validation_fraction",
       .field = data<&D::validation_fraction>(),
       .range = fraction(),
       .help = "share of the sequences that is held out, by a hash of their index"},
      {.name = "hash",
       .field = data<&D::hash>(),
       .help = "16 hexadecimal digits that the tokens must hash to; empty: any data"},
  };
}

Keys train_keys() {
  using T = TrainConfig;
  return {
      {.name = "steps",
       .field = train<&T::steps>(),
       .range = at_least(1),
       .on_resume = kMayChange,
       .help = "optimizer steps, skipped ones included"},
      {.name = "microbatches",
       .field = train<&T::microbatches>(),
       .range = from_to(1, 1 << 20),
       .help = "microbatches of one step"},
      {.name = "microbatch_size",
       .field = train<&T::microbatch_size>(),
       .unit = "sequences",
       .range = from_to(1, 1 << 20),
       .help = "sequences of one microbatch"},
      {.name = "optimizer",
       .field = train<&T::optimizer>(),
       .choices = {"adamw", "lamb"},
       .help = "AdamW, or LAMB with a trust ratio for each tensor"},
      {.name = "beta1",
       .field = train<&T::beta1>(),
       .range = decay(),
       .help = "decay of the first moment"},
      {.name = "beta2",
       .field = train<&T::beta2>(),
       .range = decay(),
       .help = "decay of the second moment"},
      {.name = "epsilon",
       .field = train<&T::epsilon>(),
       .range = in_fp32(1e-37, 1e6),
       .help = "added to the root of the second moment"},
      {.name = "lr",
       .field = train<&T::lr>(),
       .range = in_fp32(1e-30, 1e6),
       .help = "largest learning rate"},
      {.name = "min_lr",
       .field = train<&T::min_lr>(),
       .range = at_least(0),
       .help = "learning rate at the end of the schedule"},
      {.name = "warmup_steps",
       .field = train<&T::warmup_steps>(),
       .range = at_least(0),
       .help = "updates over which the learning rate rises linearly"},
      {.name = "schedule",
       .field = train<&T::schedule>(),
       .choices = {"cosine", "linear", "constant"},
       .help = "how the learning rate falls from lr to min_lr after the warm-up"},
      {.name = "weight_decay",
       .field = train<&T::weight_decay>(),
       .range = in_fp32(0, 1e6),
       .help = "decoupled weight decay, on matrices only"},
      {.name = "clip",
       .field = train<&T::clip>(),
       .range = at_least(0),
       .help = "largest global norm of the gradient, at least 1e-30; 0: no clipping"},
      {.name = "seed",
       .field = train<&T::seed>(),
       .range = at_least(0),
       .help = "initial values and order of the data"},
      {.name = "updates",
       .field = train<&T::updates>(),
       .choices = {"synchronous", "delayed"},
       .help = "delayed: a step computes while the one before is reduced and applied"},
      {.name = "reduction",
       .field = train<&T::reduction>(),
       .choices = {"reproducible", "fast"},
       .available = {"reproducible"},
       .help = "sums of gradients in integers (the same bits always) or in fp32"},
  };
}

}  // namespace

void append_learning_keys(Keys& all) {
  append_section(all, "model", model_keys());
  append_section(all, "data", data_keys());
  append_section(all, "train", train_keys());
}

}  // namespace swarmpi
