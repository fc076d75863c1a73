#pragma once
// What a stage remembers from step to step: d versions of its weights, the moments, and the integer
// sums of d steps.
//
// Versions: w(v) are the weights after step v, w(0) the initial ones. Step t computes on w(max(0, t
// - d)), d = 1 for synchronous and 2 for delayed updates. w(v) lies at index v mod d, so applying
// step t makes w(t) from w(t - 1) in the place of w(t - d), which no open step needs any more. Sums
// of step t lie at index t mod d.
//
// Where each replica owns a range of the stage (method "zero_offload", d = 1) only the moments of
// that range are here. A step is then applied in parts: update_owned() to own elements,
// place_weights() for all others, and finish().

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "core/ids.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "kernels/backend.hpp"
#include "model/stage_tensors.hpp"
#include "model/step_sums.hpp"
#include "protocol/messages/port_kinds.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/state_hash.hpp"

namespace swarmpi {

/// One version of the weights, with the forms in which the backend multiplies by them.
struct WeightVersion {
  std::unique_ptr<kernels::Memory> memory;
  std::vector<float*> tensors;  // by place
  std::vector<std::unique_ptr<kernels::Weight>>
      multiplied;  // by place; null where not multiplied by
  // By place, what refresh() left: to be found as it was when the version is overwritten. There
  // after the backend's next finish().
  std::vector<std::uint64_t> weight_hashes;  // where several versions are kept
  std::vector<std::uint64_t> copy_hashes;    // of what is multiplied by
};

/// A layer's weights as the passes take them.
struct LayerWeights {
  const float *norm1_weight, *norm1_bias;  // (C)
  const kernels::Weight& qkv;              // (3C, C)
  const float* qkv_bias;                   // (3C)
  const kernels::Weight& projection;       // (C, C)
  const float* projection_bias;            // (C)
  const float *norm2_weight, *norm2_bias;  // (C)
  const kernels::Weight& up;               // (F, C)
  const float* up_bias;                    // (F)
  const kernels::Weight& down;             // (C, F)
  const float* down_bias;                  // (C)
};
LayerWeights layer_weights(const WeightVersion& version, const StageTensors& tensors,
                           std::int64_t layer_set);

/// Bytes of the forms in which the backend multiplies by one version of these weights.
std::int64_t multiplied_bytes(const StageTensors& tensors, const kernels::Backend& backend);

/// What a fault hits: the newest weights, with the copies made of them; the oldest; or only the
/// copies of the newest that products read.
enum class FaultyPart : std::uint8_t { newest, oldest, copies };

/// Elements of one tensor, one after another.
struct Slice {
  std::size_t place = 0;
  std::int64_t first = 0;  ///< within the tensor
  std::int64_t count = 0;
};

/// Where a fault was put.
struct FlippedBit {
  std::string tensor;
  std::int64_t element = 0;
  int bit = 0;
};

class StageState {
 public:
  /// `owned`: of each tensor, by place, the elements whose moments are here, one run over all
  /// tensors; empty: all.
  StageState(const Config& config, const StageTensors& tensors, kernels::Backend& backend,
             std::vector<Slice> owned = {});

  /// The moments of other elements are here from now on; what they hold is undefined.
  void own(std::vector<Slice> owned);

  // Each of these leaves no sums; before any step (-1) is the same as after step 0.
  /// Errors: bad_input, where the deck's file of weights cannot be read, or is another by now.
  Status initialize();
  void loaded(Step step);
  /// What the tensors hold is undefined until write() and complete().
  void prepare(Step step);
  /// Of live memory of the backend, valid until the next apply().
  std::vector<TensorState> views();

  // A piece of the state, as StageModel::read_piece() has it.
  std::size_t state_bytes(std::span<const Slice> slices) const;
  std::uint64_t read(std::span<const Slice> slices, float* state) const;
  bool write(std::span<const Slice> slices, Step step, std::uint64_t hash, const float* state,
             std::span<const MissedUpdate> missed);
  /// All of the tensor was written: it can be computed with. Returns its hash.
  std::uint64_t complete(std::size_t place);

  /// The weights on which this step computes. REQUIRES: they are here: step t - d is applied, t is
  /// not.
  const WeightVersion& weights_for(Step step) const;
  const WeightVersion& newest_weights() const { return versions_[index_of(newest_)]; }
  StepSums& sums_of(Step step);

  /// What of the state is here, if not all: of a tensor that is not here as a whole the update is
  /// told the trust ratio.
  struct Part {
    std::vector<Slice> here;
    std::span<const float> ratios;  // by place, if the method has them
  };
  /// `gradient_of`(slice): reduced; not called where the step is skipped. `part`: the rest is left
  /// alone, and so is the hash of a tensor that is not here as a whole; null: all. Fills damaged()
  /// and ratios() anew.
  using GradientOf = std::function<kernels::ReducedGradient(const Slice& slice)>;
  std::vector<std::uint64_t> apply(const CommitRecord& record, const GradientOf& gradient_of,
                                   const Part* part);
  // ---- Where each replica owns a range

  /// Applies a step that is not skipped to owned elements. Returns the hash of their new weights.
  std::uint64_t update_owned(std::span<const Slice> slices, const CommitRecord& record,
                             const GradientOf& gradient_of);
  /// Copies weights, dense, slice after slice.
  void copy_weights(std::span<const Slice> slices, float* weights) const;
  /// Of the weights as they stand.
  std::uint64_t weights_hash(std::span<const Slice> slices) const;
  /// Takes over weights after this step that another replica has made. Returns the hash of what is
  /// in place then.
  std::uint64_t place_weights(std::span<const Slice> slices, Step step, const float* weights);
  /// The step is applied: all elements are updated, or were placed, or it is skipped.
  StateHash finish(const CommitRecord& record);
  /// What lay elsewhere for this tensor was damaged.
  void note_damage(std::size_t place) { found_damaged_.insert(place); }
  /// Of all weights of each tensor.
  std::vector<std::uint64_t> weight_hashes() const;

  /// The trust ratios of the last update, by place; empty where it had none.
  const std::vector<float>& ratios() const { return ratios_; }
  /// Places of the tensors that memory has changed, as the last apply() or finish() found: a kept
  /// version of the weights, or a copy that products read, was not what it had been made, nor,
  /// where each replica owns a range, the weights or moments that were overwritten. Passes may have
  /// computed with it.
  const std::vector<std::size_t>& damaged() const { return damaged_; }
  /// Of what is owned. Any thread may call while nothing is applied.
  std::vector<std::uint64_t> tensor_hashes() const;
  FlippedBit flip(std::uint64_t seed, FaultyPart part);
  std::int64_t memory_bytes() const;

 private:
  /// Of a version or of a step's sums.
  std::size_t index_of(std::int64_t number) const;
  void clear(kernels::Memory& memory);
  void clear_sums();
  /// Applies the updates that slices as they were after `step` have missed.
  void catch_up(std::span<const Slice> slices, Step step, std::span<const MissedUpdate> missed);
  /// The slice's weights of versions `newest`, `newest` - 1, ..., then both moments.
  std::vector<float*> arrays(const Slice& slice, std::int64_t newest) const;
  Slice whole(std::size_t place) const { return {place, 0, tensors_.info(place).count()}; }
  /// Of an owned element of the tensor, within the memory of a moment.
  std::int64_t moment_offset(const Slice& slice) const {
    return tensors_.offset(slice.place) + slice.first - first_owned_;
  }
  /// The moments of a slice, all of it owned.
  float* moment(kernels::Memory& memory, const Slice& slice) const {
    return memory.as<float>() + moment_offset(slice);
  }
  /// What the step that is being applied has made of a slice.
  struct Made {
    std::int64_t count = 0;
    std::uint64_t weights = 0;
    std::uint64_t state = 0;  // with moments; where they are here
  };
  using MadeSlices = std::map<std::pair<std::size_t, std::int64_t>, Made>;  // by place and first
  /// Of all tensors; REQUIRES: all their elements were made.
  StateHash hash_of_made() const;
  /// Notes the tensors of which memory has changed something since it was left.
  void compare_with_left(const StateHash& found);
  /// Of the newest weights as they lie in memory; there after the backend's finish().
  void hash_weights(std::uint64_t& hash, const Slice& slice) const;
  void hash_weights(std::uint64_t& hash, std::size_t place, const WeightVersion& weights) const;
  /// Of the slice as it lies in memory, `newest` being its newest version. Not by operations: the
  /// thread that writes checkpoints asks for it while passes are computed.
  std::uint64_t hash(const Slice& slice, std::int64_t newest) const;
  /// The part of it that is of the versions before the newest: as they were when they were made.
  std::uint64_t hash_of_older(std::size_t place) const;
  /// What refresh() has left of a tensor, and what is there when it is overwritten.
  struct Comparison {
    std::size_t place = 0;
    std::uint64_t expected = 0;
    std::uint64_t found = 0;  // after the backend's finish()
  };
  using Comparisons = std::deque<Comparison>;  // which stay where they are
  // They ask whether memory has changed something that this update reads or overwrites since
  // refresh() left it:
  /// a version of the weights, where several are kept;
  void compare_weights(std::size_t place, const WeightVersion& from, const WeightVersion& to,
                       Comparisons& comparisons) const;
  /// the copies that products read.
  void compare_copies(std::size_t place, const WeightVersion& to, Comparisons& comparisons) const;
  /// Tensors that differ there, or that were noted, are what was found damaged.
  void take_damaged(const Comparisons& comparisons);
  /// Makes the tensor's weights in `to` those in `from`.
  void copy(std::size_t place, WeightVersion& to, const WeightVersion& from);
  /// The hash of the tensor's weights as they are now, where several versions are kept.
  void note_weights(std::size_t place, WeightVersion& weights);
  /// To be called after every change of the tensor's weights.
  void refresh(std::size_t place, WeightVersion& weights);
  kernels::UpdateParameters parameters_of(const CommitRecord& record) const;
  bool has_trust_ratio(std::size_t place) const;
  /// Updates a whole tensor, and compares its copies before. hash: of what it wrote; there after
  /// the backend's finish().
  void update(std::uint64_t& hash, std::size_t place, kernels::UpdateParameters parameters,
              const kernels::ReducedGradient& gradient, const WeightVersion& from,
              WeightVersion& to, Comparisons& comparisons);
  /// Updates a slice from version `step` - 1 to `step`. `gradient`: the slice's.
  void update_slice(const Slice& slice, const CommitRecord& record,
                    const kernels::ReducedGradient& gradient, std::span<const float> ratios);
  kernels::UpdateBuffers buffers_of(const Slice& slice, const kernels::ReducedGradient& gradient,
                                    const WeightVersion& from, WeightVersion& to);

  const Config& config_;
  const StageTensors& tensors_;
  kernels::Backend& backend_;
  std::int64_t newest_ = 0;                             // version
  std::vector<WeightVersion> versions_;                 // by version mod d
  std::vector<Slice> owned_;                            // by place
  std::int64_t first_owned_ = 0;                        // element of an array over all tensors
  std::unique_ptr<kernels::Memory> moment1_, moment2_;  // of owned elements
  // Where each replica owns a range.
  bool has_owners_ = false;
  std::optional<StateHash> left_;  // by the last step, or as it was loaded
  MadeSlices made_;                // by the step that is being applied, so far
  StateHash overwritten_;          // by it
  std::set<std::size_t> found_damaged_;
  std::vector<StepSums> sums_;        // by step mod d
  std::vector<std::size_t> damaged_;  // by the last apply()
  std::vector<float> ratios_;         // likewise
  std::uint64_t unused_hash_ = 0;
};

}  // namespace swarmpi
