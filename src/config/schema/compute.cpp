// The keys of [compute].

#include "config/schema/keys.hpp"

namespace swarmpi {
namespace {

template <auto member>
Field compute() {
  return field_at<&in_section<&Config::compute, member>>();
}

}  // namespace

Keys compute_keys() {
  using C = ComputeConfig;
  return {
      {.name = "kernels",
       .field = compute<&C::kernels>(),
       .on_resume = kMayChange,
       .help = "\"native\": fast, the bits depend on CPU and threads; \"reference\": slow, the "
               "same bits on every machine; \"cuda\": a GPU, the bits depend on its model, driver "
               "and cuBLASLt; \"none\": nothing is computed, for emulated and simulated peers: "
               "losses are NaN"},
      {.name = "threads",
       .field = compute<&C::threads>(),
       .range = from_to(1, 1024),
       .on_resume = kMayChange,
       .help = "compute threads of a peer; the bits of native kernels depend on their number"},
      {.name = "max_isa",
       .field = compute<&C::max_isa>(),
       .on_resume = kMayChange,
       .help = "newest instruction set that matrix products may use; empty: the newest that the "
               "CPU has"},
      {.name = "tf32",
       .field = compute<&C::tf32>(),
       .on_resume = kMayChange,
       .help = "whether \"cuda\" kernels round the factors of fp32 products to TF32, which is "
               "faster"},
      {.name = "recompute",
       .field = compute<&C::recompute>(),
       .on_resume = kMayChange,
       .help = "whether a backward pass computes the activations of its stage again; \"auto\": "
               "where they do not fit in memory; the bits are the same"},
      {.name = "memory_gb",
       .field = compute<&C::memory_gb>(),
       .unit = "GB",
       .range = from_to(0, kMostMemoryGb),
       .on_resume = kMayChange,
       .help =
           "most memory of a peer, with \"cuda\" kernels of its GPU's; 0: its share of nine tenths "
           "of what the peers of its machine, or GPU, may use"},
      {.name = "job_timeout_s",
       .field = compute<&C::job_timeout_s>(),
       .unit = "s",
       .range = duration(),
       .on_resume = kMayChange,
       .help =
           "time after which a job (one pass, one update) is late in any case; one that uses no "
           "CPU is late sooner"},
      {.name = "fidelity",
       .field = compute<&C::fidelity>(),
       .on_resume = kMayChange,
       .help = "\"emulated\": real kernels, but a job takes as long as on the device that "
               "[[peers]] names; \"simulated\": virtual time, which `swarmpi simulate` sets"},
  };
}

}  // namespace swarmpi
