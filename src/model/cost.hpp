#pragma once
// FLOPs and memory, by formula: for the partition, `swarmpi check`, the choice of `recompute =
// "auto"`.

#include <cstdint>
#include <optional>
#include <vector>

#include "config/config.hpp"
#include "kernels/backend.hpp"
#include "model/tensors.hpp"
#include "protocol/membership/room.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

/// Model FLOPs of one token, forward and backward: 72 L d^2 + 6 V d + 6 L T d at ffn = 4 d, in
/// general by layer.
double model_flops_per_token(const ModelConfig& model);
/// The same with learned boundaries.
double model_flops_per_token(const Config& config);
double layer_flops_per_token(const ModelConfig& model);
/// Of a product with a matrix of so many weights.
double linear_flops_per_token(std::int64_t weights);
double head_flops_per_token(const ModelConfig& model);

/// Model FLOPs of a job on this stage: a third of a token's for a forward pass, two for a backward
/// one, all three where the forward pass was done in the same job, as its result says (in the last
/// stage it is); one less where it adds no gradients. 0 for jobs that make no pass.
double job_flops(const Config& config, const StageSpec& spec, const Job& job,
                 const JobResult& result);

/// What one stage takes, without what all stages of a peer share.
struct StageMemory {
  std::int64_t state_bytes = 0;     ///< weights (d versions, prepared copies), moments
  std::int64_t sums_bytes = 0;      ///< integers of d steps, and of a collective; scratch
  std::int64_t gradient_bytes = 0;  ///< reduced, where the stage has other replicas
  /// Moments, and the reduced gradient where there are other replicas: where each replica owns a
  /// range, of that only its share, and the two above are without them.
  std::int64_t owned_bytes = 0;
  std::int64_t activation_slot_bytes =
      0;                           ///< of one kept microbatch; 0 in the last stage: it keeps none
  std::int64_t scratch_bytes = 0;  ///< activations of the microbatch at work, gradients

  std::int64_t fixed_bytes() const { return state_bytes + sums_bytes + scratch_bytes; }
  /// Of an owner's share: without the gradient where there is no other.
  std::int64_t owned(std::int64_t owners) const {
    return owners == 1 ? owned_bytes / 3 * 2 : owned_bytes / owners;
  }
};
StageMemory stage_memory(const Config& config, const StageSpec& spec, kernels::Backend& backend);

/// What a peer takes that serves `stages`.
struct PeerMemory {
  std::int64_t fixed_bytes = 0;            ///< the stages' and the kernels' scratch
  std::int64_t kernels_bytes = 0;          ///< of these, the kernels' scratch
  std::int64_t gradient_bytes = 0;         ///< beside these, where all stages have other replicas
  std::int64_t owned_bytes = 0;            ///< as in StageMemory
  std::int64_t activation_slot_bytes = 0;  ///< of one microbatch kept in all stages
};
PeerMemory peer_memory(const Config& config, const std::vector<StageSpec>& stages,
                       kernels::Backend& backend);

/// How many peers share what one of them computes with.
struct Sharers {
  std::int64_t on_host = 1;
  /// Its device, where that has memory of its own; 0: as many as the launcher says.
  std::int64_t on_device = 0;
};
/// So many peers on one machine that has so many devices.
Sharers on_one_machine(std::int64_t peers, std::int64_t devices);

/// What a peer may take, for what its stages hold: `compute.memory_gb`, if there is as much; 0:
/// nine tenths of its share of the backend's memory, where that is not the host's, or else of the
/// memory that the processes on its host may use. None where that cannot be read.
std::optional<std::int64_t> budget_bytes(const Config& config, const kernels::Backend& backend,
                                         const Sharers& sharers);

/// What peers need of that at least, with everything recomputed that may be: state, sums, the
/// reduced gradient, scratch; each peer the kernels' scratch. Where it is the host's memory also
/// what messages bring: the inputs that wait for their backward pass, and what is on its way.
/// `specs`: of all stages; `workers`: the peers that serve them at the start.
MemoryNeeds memory_needs(const Config& config, const std::vector<StageSpec>& specs,
                         kernels::Backend& backend, std::int64_t workers);

/// How much of what it sent a peer keeps at most, to send it again after a death (recovery =
/// "lineage"): swarm.cache_memory_gb; by default all that can be open at a time. 0 without lineage.
std::int64_t kept_for_repairs_bytes(const Config& config);

/// What lies in the host's memory of a peer whose backend has its own.
struct HostMemory {
  std::int64_t messages_bytes = 0;  ///< at most, if it came to serve all stages
  std::int64_t kept_bytes = 0;      ///< for repairs at most: half of what these leave of its share
  std::optional<std::int64_t> share_bytes;  ///< of nine tenths of the host's; none: cannot be read
};
/// None where the backend computes in the host's memory: there a peer's budget bounds all.
std::optional<HostMemory> host_memory(const Config& config, const std::vector<StageSpec>& specs,
                                      const kernels::Backend& backend, std::int64_t workers,
                                      const Sharers& sharers);

/// Microbatches whose activations one of `workers` peers that serves `stages` keeps, by
/// `compute.recompute` and by what the stages, and what is kept for repairs beside them, leave of
/// its budget_bytes(). never: as many as can be open at a peer; always, and with method "gpipe":
/// none.
std::int64_t activation_slots(const Config& config, const std::vector<StageSpec>& stages,
                              kernels::Backend& backend, std::int64_t workers,
                              const Sharers& sharers = {});

}  // namespace swarmpi
