// The keys of [swarm].

#include "config/schema/keys.hpp"

namespace swarmpi {
namespace {

template <auto member>
Field swarm() {
  return field_at<&in_section<&Config::swarm, member>>();
}

std::vector<std::string_view> boundary_codecs() {
  return {"none", "fp16", "bf16", "uniform8", "blockwise8"};
}

}  // namespace

Keys swarm_keys() {
  using S = SwarmConfig;
  return {
      {.name = "method",
       .field = swarm<&S::method>(),
       .on_resume = kMayChange,
       .help =
           "how the work is laid out over the peers; all but \"swarm\": static pipelines of one "
           "peer a stage, to compare with; a death sends them back to the last checkpoint"},
      {.name = "stages",
       .field = swarm<&S::stages>(),
       .range = from_to(1, 65536),
       .on_resume = kMayChange,
       .help = "pipeline stages that the layers are divided into; at most model.layers"},
      {.name = "cuts",
       .field = swarm<&S::cuts>(),
       .range = at_least(1),
       .on_resume = kMayChange,
       .help = "first layer of each stage but the first; []: layers are dealt to stages by FLOPs"},
      {.name = "peers",
       .field = swarm<&S::peers>(),
       .range = from_to(1, kMostPeers),
       .on_resume = kMayChange,
       .help = "number of peers, spares included, that `swarmpi check` describes; a real run has "
               "as many as it has ranks"},
      {.name = "spares",
       .field = swarm<&S::spares>(),
       .range = from_to(0, kMostPeers),
       .on_resume = kMayChange,
       .help =
           "peers with the highest ids that serve no stage until a peer dies or leaves; 0: none"},
      {.name = "pins",
       .field = swarm<&S::pins>(),
       .range = at_least(0),
       .on_resume = kMayChange,
       .help = "stage that each peer serves first, by peer id from 0; peers beyond the list are "
               "dealt to stages by cost"},
      {.name = "wiring",
       .field = swarm<&S::wiring>(),
       .on_resume = kMayChange,
       .help = "how a peer of the next stage is chosen; \"iwrr\": in proportion to measured speed "
               "(interleaved weighted round robin)"},
      {.name = "wiring_ties",
       .field = swarm<&S::wiring_ties>(),
       .on_resume = kMayChange,
       .help = "order in which \"iwrr\" chooses peers that are equally loaded; \"rotated\": each "
               "sender begins at another peer; \"random\": as in the paper"},
      {.name = "seed",
       .field = swarm<&S::seed>(),
       .range = at_least(0),
       .on_resume = kMayChange,
       .help = "seed of the random choices of the wiring; has no effect on what is computed"},
      {.name = "window",
       .field = swarm<&S::window>(),
       .range = from_to(0, kMostPeers),
       .on_resume = kMayChange,
       .help = "most microbatches in flight at a time; 0: twice swarm.stages, but at least the "
               "number of working peers"},
      {.name = "rebalance",
       .field = swarm<&S::rebalance>(),
       .available = {"none", "paper"},
       .on_resume = kMayChange,
       .help = "policy that moves peers between stages; \"paper\": a peer of the stage with the "
               "least load moves to the one with the most, one at a time"},
      {.name = "rebalance_period_s",
       .field = swarm<&S::rebalance_period_s>(),
       .unit = "s",
       .range = duration(),
       .on_resume = kMayChange,
       .help = "time between two decisions to move peers between stages"},
      {.name = "rebalance_load",
       .field = swarm<&S::rebalance_load>(),
       .on_resume = kMayChange,
       .help = "load of a stage: sum or mean of what waits at each of its peers"},
      {.name = "newcomers",
       .field = swarm<&S::newcomers>(),
       .on_resume = kMayChange,
       .help = "stage that newcomers and spares learn; \"even\": most cost per peer; \"weakest\": "
               "least measured capacity; \"loaded\": most load"},
      {.name = "recovery",
       .field = swarm<&S::recovery>(),
       .on_resume = kMayChange,
       .help = "after a death: \"lineage\" repeats only the work that was lost, \"redo\" repeats "
               "whole microbatches, \"off\" ends the run"},
      {.name = "cache_memory_gb",
       .field = swarm<&S::cache_memory_gb>(),
       .unit = "GB",
       .range = from_to(0, kMostMemoryGb),
       .on_resume = kMayChange,
       .help = "most memory in which a peer keeps sent activations and gradients for repairs; 0: "
               "room for all that can be open"},
      {.name = "shadows",
       .field = swarm<&S::shadows>(),
       .range = from_to(0, kMostPeers),
       .on_resume = kMayChange,
       .help = "spares that learn the state of a stage before one of its peers is gone, and follow "
               "its updates; at most swarm.spares"},
      {.name = "spawn",
       .field = swarm<&S::spawn>(),
       .on_resume = kMayChange,
       .help = "whether the leader starts a new process for each that is gone; needs an MPI with "
               "fault tolerance (ULFM)"},
      {.name = "hedge_after_s",
       .field = swarm<&S::hedge_after_s>(),
       .unit = "s",
       .range = duration_or_none(),
       .default_only = true,
       .on_resume = kMayChange,
       .help = "time after which a second peer is asked for an answer that has not come; 0: never"},
      {.name = "heartbeat_s",
       .field = swarm<&S::heartbeat_s>(),
       .unit = "s",
       .range = from_to(1e-3, kLongestS),
       .on_resume = kMayChange,
       .help = "time between two heartbeats of a peer"},
      {.name = "suspect_after_s",
       .field = swarm<&S::suspect_after_s>(),
       .unit = "s",
       .range = duration(),
       .on_resume = kMayChange,
       .help = "silence after which a peer is suspected, and then killed; must exceed "
               "swarm.heartbeat_s"},
      {.name = "give_up_after_s",
       .field = swarm<&S::give_up_after_s>(),
       .unit = "s",
       .range = duration_or_none(),
       .on_resume = kMayChange,
       .help =
           "how long the run waits for a suspected peer that nobody can kill, as on a host that "
           "is stopped or cut off; then it ends with status 3. swarm.suspect_after_s at least"},
      {.name = "spare_delay_s",
       .field = swarm<&S::spare_delay_s>(),
       .unit = "s",
       .range = duration_or_none(),
       .on_resume = kMayChange,
       .help = "emulated start-up time of a spare: from when it is needed until it can compute; 0: "
               "none"},
      {.name = "notice_s",
       .field = swarm<&S::notice_s>(),
       .unit = "s",
       .range = duration_or_none(),
       .on_resume = kMayChange,
       .help = "how long before each kill of faults.trace or faults.mtbf_s the peer gets a notice; "
               "0: no notice"},
      {.name = "allow_mixed",
       .field = swarm<&S::allow_mixed>(),
       .on_resume = kMayChange,
       .help = "whether peers may compute with kernels of different fingerprints, as CPUs beside "
               "GPUs; the run is then marked as mixed, and its bits depend on who computes what"},
      {.name = "compress_activations",
       .field = swarm<&S::compress_activations>(),
       .available = boundary_codecs(),
       .help = "codec of the activations between stages; part of what is computed"},
      {.name = "compress_gradients",
       .field = swarm<&S::compress_gradients>(),
       .available = boundary_codecs(),
       .help = "codec of the gradients between stages; part of what is computed"},
      {.name = "fp16_scale",
       .field = swarm<&S::fp16_scale>(),
       .range = from_to(0x1p-126, 0x1p126),
       .help =
           "power of two from 2^-126 to 2^126 by which codec \"fp16\" multiplies before it rounds; "
           "more keeps smaller values, less keeps larger ones from overflowing"},
      {.name = "boundary",
       .field = swarm<&S::boundary>(),
       .help = "what narrows what crosses between stages, part of the model; \"bottleneck\": a "
               "linear layer and a norm; \"maxout\": the largest of neighbours; a linear layer "
               "widens it again"},
      {.name = "boundary_factor",
       .field = swarm<&S::boundary_factor>(),
       .range = from_to(1, 65536),
       .help = "by how much \"bottleneck\" and \"maxout\" narrow what crosses; divides the width"},
      {.name = "compress_reduction",
       .field = swarm<&S::compress_reduction>(),
       .available = {"none"},
       .help = "codec of the sums in a reduction; needs train.reduction = \"fast\""},
      {.name = "collectives",
       .field = swarm<&S::collectives>(),
       .on_resume = kMayChange,
       .help = "which library adds up the sums of a stage's replicas while nothing goes wrong; "
               "\"none\": all goes point to point; \"nccl\" needs compute.kernels = \"cuda\" at "
               "all peers"},
  };
}

}  // namespace swarmpi
