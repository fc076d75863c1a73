// The rows of the schema.

#include "config/schema.hpp"

namespace swarmpi {
namespace {

template <auto section, auto member>
auto& at(Config& config) {
  return config.*section.*member;
}
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
template <auto member>
Field swarm() {
  return &at<&Config::swarm, member>;
}
template <auto member>
Field compute() {
  return &at<&Config::compute, member>;
}
template <auto member>
Field faults() {
  return &at<&Config::faults, member>;
}
template <auto member>
Field output() {
  return &at<&Config::output, member>;
}

constexpr double kManyPeers = 1 << 20;
constexpr double kLargestSize = 1 << 24;
constexpr auto kMayChange = OnResume::may_change;

constexpr Range at_least(double min) { return {.min = min}; }
constexpr Range above(double min) { return {.min = min, .above_min = true}; }
constexpr Range from_to(double min, double max) { return {.min = min, .max = max}; }
constexpr Range fraction() { return {.min = 0, .max = 1, .below_max = true}; }

using Names = std::vector<std::string_view>;
using Keys = std::vector<KeySpec>;

Names codecs() { return {"none", "fp16", "bf16", "blockwise8", "uniform8", "int4"}; }

Keys model_keys() {
  using M = ModelConfig;
  return {
      {.name = "layers",
       .field = model<&M::layers>(),
       .range = from_to(1, 65536),
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
       .range = from_to(0, 65536),
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
       .range = fraction(),
       .help = "decay of the first moment"},
      {.name = "beta2",
       .field = train<&T::beta2>(),
       .range = fraction(),
       .help = "decay of the second moment"},
      {.name = "epsilon",
       .field = train<&T::epsilon>(),
       .range = above(0),
       .help = "added to the root of the second moment"},
      {.name = "lr", .field = train<&T::lr>(), .range = above(0), .help = "largest learning rate"},
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
       .range = at_least(0),
       .help = "decoupled weight decay, on matrices only"},
      {.name = "clip",
       .field = train<&T::clip>(),
       .range = at_least(0),
       .help = "largest global norm of the gradient; 0: no clipping"},
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

Keys swarm_keys() {
  using S = SwarmConfig;
  return {
      {.name = "method",
       .field = swarm<&S::method>(),
       .choices = {"swarm", "gpipe", "1f1b", "data_parallel", "zero_offload"},
       .available = {"swarm"},
       .help = "how the work is laid out over peers"},
      {.name = "stages",
       .field = swarm<&S::stages>(),
       .range = from_to(1, 65536),
       .on_resume = kMayChange,
       .help = "pipeline stages that the layers are cut into"},
      {.name = "peers",
       .field = swarm<&S::peers>(),
       .range = from_to(1, kManyPeers),
       .on_resume = kMayChange,
       .help = "peers of a simulation; a real run has as many as ranks"},
      {.name = "spares",
       .field = swarm<&S::spares>(),
       .range = from_to(0, kManyPeers),
       .default_only = true,
       .on_resume = kMayChange,
       .help = "peers that wait until another dies"},
      {.name = "pins",
       .field = swarm<&S::pins>(),
       .range = at_least(0),
       .default_only = true,
       .on_resume = kMayChange,
       .help = "first stage of each peer, in order of their ids"},
      {.name = "wiring",
       .field = swarm<&S::wiring>(),
       .choices = {"iwrr", "uniform", "round_robin", "fixed"},
       .on_resume = kMayChange,
       .help = "how the peer of the next stage is chosen; iwrr: by measured speed"},
      {.name = "seed",
       .field = swarm<&S::seed>(),
       .range = at_least(0),
       .on_resume = kMayChange,
       .help = "random choices of the wiring; no effect on what is computed"},
      {.name = "window",
       .field = swarm<&S::window>(),
       .range = from_to(0, kManyPeers),
       .on_resume = kMayChange,
       .help = "microbatches in flight; 0: twice the stages, at least the peers"},
      {.name = "rebalance",
       .field = swarm<&S::rebalance>(),
       .available = {"none"},
       .on_resume = kMayChange,
       .help = "policy that moves peers between stages"},
      {.name = "rebalance_period_s",
       .field = swarm<&S::rebalance_period_s>(),
       .unit = "s",
       .range = above(0),
       .on_resume = kMayChange,
       .help = "time between two such decisions"},
      {.name = "recovery",
       .field = swarm<&S::recovery>(),
       .choices = {"lineage", "redo", "off"},
       .on_resume = kMayChange,
       .help = "after a death: repeat what was lost, whole microbatches, or stop"},
      {.name = "cache_memory_gb",
       .field = swarm<&S::cache_memory_gb>(),
       .unit = "GB",
       .range = at_least(0),
       .on_resume = kMayChange,
       .help = "bound on what a peer keeps for repairs; 0: automatic"},
      {.name = "shadows",
       .field = swarm<&S::shadows>(),
       .range = from_to(0, kManyPeers),
       .default_only = true,
       .on_resume = kMayChange,
       .help = "peers that keep a second copy of a stage's state on another host"},
      {.name = "spawn",
       .field = swarm<&S::spawn>(),
       .default_only = true,
       .on_resume = kMayChange,
       .help = "start new processes for those that died"},
      {.name = "hedge_after_s",
       .field = swarm<&S::hedge_after_s>(),
       .unit = "s",
       .range = at_least(0),
       .default_only = true,
       .on_resume = kMayChange,
       .help = "ask a second peer when an answer takes longer; 0: never"},
      {.name = "heartbeat_s",
       .field = swarm<&S::heartbeat_s>(),
       .unit = "s",
       .range = above(0),
       .on_resume = kMayChange,
       .help = "time between two signs of life"},
      {.name = "suspect_after_s",
       .field = swarm<&S::suspect_after_s>(),
       .unit = "s",
       .range = above(0),
       .on_resume = kMayChange,
       .help = "silence after which a peer is suspected"},
      {.name = "spare_delay_s",
       .field = swarm<&S::spare_delay_s>(),
       .unit = "s",
       .range = at_least(0),
       .on_resume = kMayChange,
       .help = "start-up time of a spare"},
      {.name = "notice_s",
       .field = swarm<&S::notice_s>(),
       .unit = "s",
       .range = at_least(0),
       .on_resume = kMayChange,
       .help = "warning time before a preemption; 0: none"},
      {.name = "allow_mixed",
       .field = swarm<&S::allow_mixed>(),
       .on_resume = kMayChange,
       .help = "accept peers whose kernels give other bits; the run is marked mixed"},
      {.name = "compress_activations",
       .field = swarm<&S::compress_activations>(),
       .choices = codecs(),
       .available = {"none"},
       .help = "codec of activations between stages"},
      {.name = "compress_gradients",
       .field = swarm<&S::compress_gradients>(),
       .choices = codecs(),
       .available = {"none"},
       .help = "codec of gradients between stages"},
      {.name = "boundary",
       .field = swarm<&S::boundary>(),
       .choices = {"plain", "bottleneck", "maxout"},
       .available = {"plain"},
       .help = "learned compression between stages"},
      {.name = "boundary_factor",
       .field = swarm<&S::boundary_factor>(),
       .range = from_to(1, 65536),
       .help = "by how much it narrows what is sent"},
      {.name = "compress_reduction",
       .field = swarm<&S::compress_reduction>(),
       .choices = codecs(),
       .available = {"none"},
       .help = "codec of the reduction; needs train.reduction = \"fast\""},
  };
}

Keys compute_keys() {
  using C = ComputeConfig;
  return {
      {.name = "kernels",
       .field = compute<&C::kernels>(),
       .choices = {"native", "reference"},
       .on_resume = kMayChange,
       .help = "fast, or serial with the same bits on every machine"},
      {.name = "threads",
       .field = compute<&C::threads>(),
       .range = from_to(1, 1024),
       .on_resume = kMayChange,
       .help = "compute threads of a peer; part of the bits it computes"},
      {.name = "max_isa",
       .field = compute<&C::max_isa>(),
       .choices = {"", "avx2", "avx512", "avx512_bf16", "amx"},
       .on_resume = kMayChange,
       .help = "newest instruction set that matrix products may use; empty: no limit"},
      {.name = "recompute",
       .field = compute<&C::recompute>(),
       .choices = {"auto", "always", "never"},
       .on_resume = kMayChange,
       .help = "whether activations inside a stage are computed again; the same bits"},
      {.name = "memory_gb",
       .field = compute<&C::memory_gb>(),
       .unit = "GB",
       .range = at_least(0),
       .on_resume = kMayChange,
       .help = "memory of a peer; 0: half of what the machine has"},
      {.name = "fidelity",
       .field = compute<&C::fidelity>(),
       .choices = {"real", "emulated", "simulated"},
       .available = {"real"},
       .on_resume = kMayChange,
       .help = "real kernels and links, or models of them"},
  };
}

Keys faults_keys() {
  using F = FaultsConfig;
  return {
      {.name = "mode",
       .field = faults<&F::mode>(),
       .choices = {"none", "emulated", "kill"},
       .available = {"none"},
       .on_resume = kMayChange,
       .help = "preempted peers fall silent, or kill their process"},
      {.name = "trace",
       .field = faults<&F::trace>(),
       .default_only = true,
       .on_resume = kMayChange,
       .help = "CSV file of events: time_s,event,peer"},
      {.name = "mtbf_s",
       .field = faults<&F::mtbf_s>(),
       .unit = "s",
       .range = at_least(0),
       .default_only = true,
       .on_resume = kMayChange,
       .help = "mean time between the failures of one peer; 0: none"},
      {.name = "seed",
       .field = faults<&F::seed>(),
       .range = at_least(0),
       .on_resume = kMayChange,
       .help = "random times of failures"},
  };
}

Keys output_keys() {
  using O = OutputConfig;
  return {
      {.name = "run",
       .field = output<&O::run>(),
       .on_resume = kMayChange,
       .help = "run file; its journal stands beside it"},
      {.name = "checkpoint",
       .field = output<&O::checkpoint>(),
       .on_resume = kMayChange,
       .help = "folder of the checkpoints; empty: `checkpoints` beside the run file"},
      {.name = "checkpoint_every",
       .field = output<&O::checkpoint_every>(),
       .unit = "steps",
       .range = at_least(0),
       .on_resume = kMayChange,
       .help = "0: only at the end and when stopped"},
      {.name = "keep",
       .field = output<&O::keep>(),
       .range = at_least(1),
       .on_resume = kMayChange,
       .help = "checkpoints that are kept; older ones are deleted"},
      {.name = "publish_every_s",
       .field = output<&O::publish_every_s>(),
       .unit = "s",
       .range = above(0),
       .on_resume = kMayChange,
       .help = "how often the run file is made anew from the journal"},
      {.name = "validate_every",
       .field = output<&O::validate_every>(),
       .unit = "steps",
       .range = at_least(0),
       .on_resume = kMayChange,
       .help = "how often the held-out loss is measured; 0: never"},
  };
}

}  // namespace

std::vector<KeySpec> make_schema() {
  Keys all;
  const auto add = [&all](std::string_view section, Keys keys) {
    for (KeySpec& key : keys) {
      key.section = section;
      all.push_back(std::move(key));
    }
  };
  add("model", model_keys());
  add("data", data_keys());
  add("train", train_keys());
  add("swarm", swarm_keys());
  add("compute", compute_keys());
  add("faults", faults_keys());
  add("output", output_keys());
  return all;
}

}  // namespace swarmpi
