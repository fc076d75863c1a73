// The rows of [swarm], [compute], [faults] and [output].

#include "config/schema_rows.hpp"

namespace swarmpi {
namespace {

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

constexpr double kMostMemoryGb = 1e6;

std::vector<std::string_view> codecs() {
  return {"none", "fp16", "bf16", "blockwise8", "uniform8", "int4"};
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
       .help = "peers that are simulated or checked, spares too; a real run has as many as ranks"},
      {.name = "spares",
       .field = swarm<&S::spares>(),
       .range = from_to(0, kManyPeers),
       .on_resume = kMayChange,
       .help = "peers that wait until another dies: those with the highest ids"},
      {.name = "pins",
       .field = swarm<&S::pins>(),
       .range = at_least(0),
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
       .help = "microbatches in flight; 0: twice the stages, at least the working peers"},
      {.name = "rebalance",
       .field = swarm<&S::rebalance>(),
       .available = {"none"},
       .on_resume = kMayChange,
       .help = "policy that moves peers between stages"},
      {.name = "rebalance_period_s",
       .field = swarm<&S::rebalance_period_s>(),
       .unit = "s",
       .range = duration(),
       .default_only = true,
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
       .range = from_to(0, kMostMemoryGb),
       .on_resume = kMayChange,
       .help = "bound on what a peer keeps for repairs; 0: all of what can be open"},
      {.name = "shadows",
       .field = swarm<&S::shadows>(),
       .range = from_to(0, kManyPeers),
       .default_only = true,
       .on_resume = kMayChange,
       .help = "peers that keep a second copy of a stage's state on another host"},
      {.name = "spawn",
       .field = swarm<&S::spawn>(),
       .on_resume = kMayChange,
       .help = "start new processes for those that are gone, in calm moments"},
      {.name = "hedge_after_s",
       .field = swarm<&S::hedge_after_s>(),
       .unit = "s",
       .range = duration_or_none(),
       .default_only = true,
       .on_resume = kMayChange,
       .help = "ask a second peer when an answer takes longer; 0: never"},
      {.name = "heartbeat_s",
       .field = swarm<&S::heartbeat_s>(),
       .unit = "s",
       .range = duration(),
       .on_resume = kMayChange,
       .help = "time between two signs of life"},
      {.name = "suspect_after_s",
       .field = swarm<&S::suspect_after_s>(),
       .unit = "s",
       .range = duration(),
       .on_resume = kMayChange,
       .help = "silence after which a peer is suspected"},
      {.name = "spare_delay_s",
       .field = swarm<&S::spare_delay_s>(),
       .unit = "s",
       .range = duration_or_none(),
       .on_resume = kMayChange,
       .help = "time that a spare takes from its call until it can compute"},
      {.name = "notice_s",
       .field = swarm<&S::notice_s>(),
       .unit = "s",
       .range = duration_or_none(),
       .on_resume = kMayChange,
       .help = "warning time before a preemption of the trace; 0: none"},
      {.name = "allow_mixed",
       .field = swarm<&S::allow_mixed>(),
       .default_only = true,
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
       .default_only = true,
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
       .range = from_to(0, kMostMemoryGb),
       .on_resume = kMayChange,
       .help =
           "memory of a peer; 0: its share of half of what its machine has (check: all on one)"},
      {.name = "fidelity",
       .field = compute<&C::fidelity>(),
       .choices = {"real", "emulated", "simulated"},
       .available = {"real", "emulated"},
       .on_resume = kMayChange,
       .help = "real; with jobs that take as long as [[peers]] say; or in virtual time"},
  };
}

Keys faults_keys() {
  using F = FaultsConfig;
  return {
      {.name = "mode",
       .field = faults<&F::mode>(),
       .choices = {"none", "emulated", "kill"},
       .on_resume = kMayChange,
       .help = "preempted peers fall silent, or kill their process"},
      {.name = "trace",
       .field = faults<&F::trace>(),
       .on_resume = kMayChange,
       .help = "CSV file of events: time_s,event,peer"},
      {.name = "mtbf_s",
       .field = faults<&F::mtbf_s>(),
       .unit = "s",
       .range = duration_or_none(),
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
       .range = duration(),
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

void append_running_keys(Keys& all) {
  append_section(all, "swarm", swarm_keys());
  append_section(all, "compute", compute_keys());
  append_section(all, "faults", faults_keys());
  append_section(all, "output", output_keys());
}

}  // namespace swarmpi
