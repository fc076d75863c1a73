#pragma once
// Executes jobs on a peer's stages with real kernels, one at a time, on the calling thread. It has
// no thread, clock or messages of its own.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "config/config.hpp"
#include "core/payload.hpp"
#include "data/dataset.hpp"
#include "kernels/backend.hpp"
#include "model/stage_model.hpp"
#include "runtime/collectives.hpp"
#include "runtime/payload_copies.hpp"

namespace swarmpi {

/// Makes a microbatch: inputs and targets, (B*T) each.
using TokenSource =
    std::function<Status(const MicrobatchId& microbatch, std::span<std::int32_t> inputs,
                         std::span<std::int32_t> targets)>;
/// REQUIRES: the data outlive it.
TokenSource tokens_of(const Dataset& data);

/// How a peer comes to further stages, and to its data. All may be null.
struct StageFactory {
  /// Makes a stage that was not served so far, of undefined content.
  std::function<std::unique_ptr<StageModel>(StageId, const Ownership&)> make;
  /// Of how many microbatches a stage keeps activations that has the peer's memory for itself.
  std::function<std::int64_t(StageId)> slots_alone;
  /// Whether there is memory left for a stage that is not served so far, or, where one is held that
  /// owned something else of it, for what it owns now. May be null.
  using HasRoom =
      std::function<bool(StageId, const Ownership&, const std::optional<Ownership>& held)>;
  HasRoom has_room = {};
  /// Whether the data can be read now, from where they lie. May be null.
  std::function<bool()> can_read_data = {};
};

class JobExecutor {
 public:
  /// `self`: whom messages name. `stages`: those that this peer serves, ready to run. `payloads`:
  /// results are taken from it.
  /// `flip_after`: a fault for tests: after this step is applied one bit of a weight is flipped,
  /// and the stage's hash does not follow. `factory`: empty where neither a PrepareJob nor
  /// room_for() comes.
  JobExecutor(PeerId self, const Config& config, TokenSource tokens, PayloadPool& payloads,
              std::vector<std::unique_ptr<StageModel>> stages,
              std::optional<Step> flip_after = std::nullopt, StageFactory factory = {});

  /// From now on these say what the stages' collectives have left; they must outlive this.
  /// REQUIRES: no job is running.
  void take_from(const CollectiveResults& results) { collective_results_ = &results; }
  /// From now on results come to the host beside the next job; it must outlive this. REQUIRES: no
  /// job is running.
  void copy_beside_jobs(PayloadCopies& copies) { copies_ = &copies; }
  /// What this peer brings to a collective of the stage's replicas; nothing where it does not serve
  /// it. For any thread. REQUIRES: the step's sums are complete, and as for stage().
  std::optional<CollectiveArrays> arrays_for_collective(StageId stage, Step step);

  /// REQUIRES: the calling thread was prepared by the backend. Errors: the data cannot be read;
  /// `failed`: memory has changed a stage's state.
  Result<JobResult> execute(const Job& job);
  /// A stage that is served, for any thread. REQUIRES: no update of the stage, and no job that
  /// prepares or drops it, is running or can start.
  StageModel& stage(StageId stage);
  /// The same, made where it is not served so far: then all others give up the activations that
  /// they keep. Null where there is no memory left for it. `ownership`: what this peer has of its
  /// moments from now on. REQUIRES: no job is running or can start.
  StageModel* room_for(StageId stage, const Ownership& ownership = {});

 private:
  JobResult run(const ForwardJob& job);
  JobResult run(const BackwardJob& job);
  JobResult run(const ShareJob& job);
  JobResult run(const ReduceJob& job);
  JobResult round_collective(const ReduceJob& job);
  JobResult run(const PlaceJob& job);
  JobResult run(const GatherJob& job);
  Result<JobResult> run(const ApplyJob& job);
  JobResult run(const UpdateJob& job);
  JobResult run(const PlaceWeightsJob& job);
  JobResult run(const CopyWeightsJob& job);
  JobResult run(const PrepareJob& job);
  JobResult run(const ReadJob& job);
  JobResult run(const WriteJob& job);
  JobResult run(const DropJob& job);
  JobResult run(const TryJob& job);
  /// Makes the tokens of a job that works on a microbatch.
  Status load_tokens(const Job& job);
  /// Room for what a pass sends over a cut, whose copies to the host may outlast its job.
  class Boundary;
  /// Blocks of the reduced gradient, one after another.
  PayloadRef copy_of_gradient(const StageModel& model, const BlockRange& blocks);
  /// Blocks of the newest weights, likewise.
  PayloadRef copy_of_weights(const StageModel& model, const BlockRange& blocks);
  /// If only one stage is left, it has the peer's memory for itself.
  void use_memory_alone();
  /// A stage that is the only one keeps as many activations as there is memory for.
  void use_memory(StageId id, StageModel& stage) const;

  PeerId self_;
  TokenSource tokens_;
  PayloadPool& payloads_;
  std::mutex mutex_;
  // Only jobs change the map, guarded by mutex_ from other threads' looks.
  std::map<StageId, std::unique_ptr<StageModel>> stages_;
  std::size_t activations_bytes_, gradients_bytes_;  // of what crosses a cut
  std::optional<Step> flip_after_;
  std::uint64_t fault_seed_;
  StageFactory factory_;
  const CollectiveResults* collective_results_ = nullptr;
  PayloadCopies* copies_ = nullptr;    // null: a result is there when its job ends
  std::vector<std::int32_t> inputs_;   // (B*T)
  std::vector<std::int32_t> targets_;  // (B*T)
};

}  // namespace swarmpi
