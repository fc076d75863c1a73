#pragma once
// One stage of the model on one peer: weights (d versions), moments, sums, and the passes over a
// microbatch. The worker's compute thread calls it; it knows nothing of peers and messages.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "core/cover.hpp"
#include "core/ids.hpp"
#include "core/payload.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "kernels/backend.hpp"
#include "model/activations.hpp"
#include "model/gradients.hpp"
#include "model/passes.hpp"
#include "model/stage_gradient.hpp"
#include "model/stage_shape.hpp"
#include "model/stage_state.hpp"
#include "model/stage_tensors.hpp"
#include "model/tensors.hpp"
#include "protocol/reduction/blocks.hpp"
#include "protocol/reduction/chunks.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/state_hash.hpp"

namespace swarmpi {

/// What a collective of a stage's replicas adds up, and where it leaves the result: all tensors by
/// offset, in the backend's memory.
struct CollectiveArrays {
  const std::int64_t* in = nullptr;  // (count)
  std::int64_t* out = nullptr;       // (count)
  std::int64_t count = 0;
  Cover cover;                       // of `in`
  std::shared_ptr<const void> keep;  // both are there while this is
};

class StageModel {
 public:
  /// Copies of what crosses a cut, to the host.
  using UnderWay = std::unique_ptr<kernels::HostCopies>;

  /// `slots`: microbatches whose activations may be kept between forward and backward; 0 recomputes
  /// always. `ownership`: where each replica owns a range of the stage, this one's.
  StageModel(const Config& config, StageSpec spec, kernels::Backend& backend, std::int64_t slots,
             std::optional<Ownership> ownership = {});

  /// Owns this range from now on; begins anew as initialize(), with moments that are undefined.
  void own(const Ownership& ownership);

  const StageSpec& spec() const { return spec_; }
  /// In whose memory it lies.
  kernels::Backend& backend() const { return backend_; }

  // initialize(), loaded() and prepare() make the stage begin anew, whatever was done with it:
  // sums, kept activations and the reduced gradient are dropped.

  /// Initial values: keyed by (seed, tensor, element); all versions of the weights alike, moments
  /// zero.
  /// Errors: as StageState::initialize().
  Status initialize();
  /// Views of the whole state, in the backend's memory; to be filled (then loaded()) or saved.
  std::vector<TensorState> state() { return state_.views(); }
  /// To be called after state() was written into: `step` is the last applied one, or -1.
  void loaded(Step step);
  /// The stage is as of `step`, or -1, but what its tensors hold is undefined until each was
  /// written by write_piece(), and completed.
  void prepare(Step step);

  /// Bytes of the state of a piece: of these blocks.
  std::size_t piece_bytes(const BlockRange& blocks) const {
    return state_.state_bytes(slices_of(blocks));
  }
  /// Copies it: tensor by tensor the d versions of the weights, newest first, then the first and
  /// the second moment. Returns its hash.
  std::uint64_t read_piece(const BlockRange& blocks, float* state) const {
    return state_.read(slices_of(blocks), state);
  }
  /// Takes over such a copy of the state after `step`, and brings it up to date with the updates
  /// that it has missed, up to the stage's own step. False, and the piece is of no use, if `hash`
  /// is not that of what is in place.
  [[nodiscard]] bool write_piece(const BlockRange& blocks, Step step, std::uint64_t hash,
                                 const float* state, std::span<const MissedUpdate> missed) {
    return state_.write(slices_of(blocks), step, hash, state, missed);
  }
  /// All pieces of the tensor are here. Returns its hash.
  std::uint64_t complete_tensor(std::size_t place) { return state_.complete(place); }

  /// Forward pass; keeps activations if a slot is free (training only). tokens: (B*T), read in
  /// stage 0 only; targets (B*T), read in the last stage only; x, y: (B*T, C) as they cross cuts
  /// (model/boundary.hpp), null in the first and last stage. Returns the loss in nats (last stage),
  /// else 0. It may come any number of times, before or after the backward pass: all keep their
  /// activations in one slot, until the next backward pass of this microbatch or until its step is
  /// applied. Where `under_way` is given, y may be there only when it has been waited for (null: it
  /// is there).
  double forward(const WorkId& work, std::span<const std::int32_t> tokens,
                 std::span<const std::int32_t> targets, const std::byte* x, std::byte* y,
                 UnderWay* under_way = nullptr);
  struct BackwardAnswer {
    double loss_nats = 0;
    std::vector<kernels::Contribution> contributions;  // in tensor order; none if made again
    bool with_forward = false;                         // no activations were kept
  };
  /// Backward pass (last stage: forward, loss and backward); adds the gradients to the sums of the
  /// step. Where no activations are kept, the forward pass is done in it. `under_way`: as above, of
  /// dx.
  BackwardAnswer backward(const WorkId& work, std::span<const std::int32_t> tokens,
                          std::span<const std::int32_t> targets, const std::byte* x,
                          const std::byte* dy, std::byte* dx, const Exponents& exponents,
                          UnderWay* under_way = nullptr);
  /// The same for a microbatch whose gradients the sums have already: makes dx alone, bit for bit.
  BackwardAnswer backward_again(const WorkId& work, std::span<const std::int32_t> tokens,
                                std::span<const std::int32_t> targets, const std::byte* x,
                                const std::byte* dy, std::byte* dx, UnderWay* under_way = nullptr);
  /// Activations of as many microbatches are kept from now on; what more is kept is dropped, and
  /// computed again.
  void keep_activations(std::int64_t slots);

  /// Last stage: logits (B*T, V) of the newest weights, for samples, in the backend's memory.
  /// Disturbs nothing that is kept.
  void logits(std::span<const std::int32_t> tokens, const std::byte* x, kernels::Matrix logits);

  /// The blocks in which the sums of a step become the reduced gradient.
  const std::vector<Block>& blocks() const { return gradient_.blocks(); }
  /// Packs the sums of `step` over these blocks, with the `addends` of other peers added. The sums
  /// stay as they are.
  PartialSums share(Step step, const BlockRange& blocks, std::span<const PartialSums> addends,
                    PayloadPool& payloads);
  struct Reduced {
    std::vector<double> squares;  // one a block
    Cover cover;                  // of all that was summed
  };
  /// Makes the sums of `step`, with the `addends` of all other peers added, the reduced gradient of
  /// these blocks. Without addends the sums stand for it until the step is applied: REQUIRES:
  /// nothing more is added to them.
  Reduced reduce(Step step, const BlockRange& blocks, std::span<const PartialSums> addends,
                 const Exponents& exponents, std::int64_t tokens);
  /// The same for the whole stage where there is no other peer: the sum of squares of each tensor.
  std::vector<double> reduce(Step step, const Exponents& exponents, std::int64_t tokens);
  // Where a collective adds up the sums (config.swarm.has_collectives()).
  /// The sums of `step`, which must be complete. Any thread may call until more is added to them.
  CollectiveArrays arrays_for_collective(Step step);
  /// Makes what a collective has left in `out` the reduced gradient of these blocks. Returns the
  /// sum of squares of each.
  std::vector<double> round_collective(const BlockRange& blocks, const Exponents& exponents,
                                       std::int64_t tokens);
  /// gradient_hash() of what is in place. REQUIRES: these blocks were rounded or placed.
  std::uint64_t hash_in_place(const BlockRange& blocks) const {
    return gradient_.hash_in_place(blocks);
  }

  /// Takes over the reduced gradient of these blocks, dense, block after block. Returns the hash of
  /// what is in place then.
  std::uint64_t place(const BlockRange& blocks, const float* gradient) {
    return gradient_.place(blocks, gradient);
  }
  /// The same hash, of blocks that lie elsewhere.
  std::uint64_t gradient_hash(const BlockRange& blocks, const float* gradient) const {
    return gradient_.hash_of(blocks, gradient);
  }
  /// The reduced gradient of these blocks, likewise.
  void copy_gradient(const BlockRange& blocks, float* gradient) const {
    gradient_.copy_out(blocks, gradient);
  }

  // ---- Where each replica owns a range

  /// Applies a step that is not skipped to the blocks of an own chunk. Returns the hash of their
  /// new weights.
  std::uint64_t update_chunk(const CommitRecord& record, const BlockRange& blocks);
  /// Copies the weights of a chunk, block after block.
  void copy_weights(const BlockRange& blocks, float* weights) const {
    state_.copy_weights(slices_of(blocks), weights);
  }
  /// The same hash, of the weights as they stand.
  std::uint64_t weights_hash(const BlockRange& blocks) const {
    return state_.weights_hash(slices_of(blocks));
  }
  /// Takes over another's chunk of the weights after `step`. Returns the hash of what is in place
  /// then.
  std::uint64_t place_weights(Step step, const BlockRange& blocks, const float* weights) {
    return state_.place_weights(slices_of(blocks), step, weights);
  }
  /// All chunks are updated, or placed, or the step is skipped: as apply().
  StateHash finish(const CommitRecord& record);
  bool has_owners() const { return ownership_.has_value(); }
  const std::optional<Ownership>& ownership() const { return ownership_; }
  /// Of all weights of each tensor.
  std::vector<std::uint64_t> weight_hashes() const { return state_.weight_hashes(); }

  /// Applies a committed step: weights of version t from those of t-1 (unchanged where skipped),
  /// frees the sums, drops kept activations of steps <= t. Returns the hash of each tensor's
  /// weights, all versions, and moments. `partial`: what is here; the rest is left alone, and the
  /// hash of a tensor that is not here as a whole is 0. Null: all.
  std::vector<std::uint64_t> apply(const CommitRecord& record,
                                   const PartialState* partial = nullptr);
  /// LAMB's ratios of the last apply(), in tensor order; empty where it had none.
  const std::vector<float>& trust_ratios() const { return state_.ratios(); }
  /// Names of the tensors that memory has changed, as the last apply() found
  /// (StageState::damaged()).
  std::vector<std::string> damaged() const;

  /// The same hashes, of weights and moments as they stand; of what is owned. Any thread may call
  /// while nothing is applied.
  std::vector<std::uint64_t> tensor_hashes() const { return state_.tensor_hashes(); }
  /// A fault, for tests of the hashes: flips a bit, drawn by the seed, of a weight or of a copy.
  FlippedBit flip(std::uint64_t seed, FaultyPart part = FaultyPart::newest) {
    return state_.flip(seed, part);
  }
  /// Bytes held by this stage, by purpose, as `swarmpi check` predicts them.
  std::int64_t memory_bytes() const;

 private:
  struct Microbatch {
    MicrobatchId id;
    std::span<const std::int32_t> tokens, targets;
    const std::byte* x;
  };
  /// Leaves gradients of tensors with `gradients`. The backend has finished when it returns.
  BackwardAnswer backward(const Microbatch& microbatch, const std::byte* dy, std::byte* dx,
                          MicrobatchGradients& gradients, UnderWay* under_way);
  void finish(UnderWay* under_way);
  std::vector<Slice> slices_of(const BlockRange& blocks) const;
  std::shared_ptr<kernels::Memory> room_for_collective() const;
  /// The blocks whose moments are here.
  BlockRange owned() const;
  /// Of each tensor what is owned, by place.
  std::vector<Slice> owned_slices() const;
  StageState::GradientOf gradient_of();
  /// Drops what passes and reductions have left, beside the sums.
  void forget_progress();

  Config config_;
  StageSpec spec_;
  kernels::Backend& backend_;
  StageShape shape_;
  StageTensors tensors_;
  std::optional<Ownership> ownership_;
  /// Of own chunks of the reduced gradient, which lie nowhere else, by first block.
  std::map<std::int64_t, std::uint64_t> reduced_hashes_;
  StageGradient gradient_;
  StageState state_;
  std::shared_ptr<kernels::Memory> collective_out_;  // null where there are no collectives
  Passes passes_;
  ActivationSlots slots_;
};

/// One embedding, one block (two where layers share weights) and one head, forward and backward, at
/// deck shapes on keyed inputs, hashed: equal for peers whose bits are equal, whatever the stages
/// (docs/numerics.md).
std::uint64_t fingerprint(const Config& config, kernels::Backend& backend);

}  // namespace swarmpi
