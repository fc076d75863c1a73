#pragma once
// The reduced gradient of a stage, and the way to it from the integer sums of all replicas: in
// blocks, any range of which can be packed for others, rounded here, or taken over from the peer
// that rounded it. Sums are only read: a share can be asked for again. Blocks to which no other
// peer adds are not rounded before they are used: the sums stand for them, and a stage with one
// replica needs no room for its gradient.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/cover.hpp"
#include "core/payload.hpp"
#include "core/records.hpp"
#include "kernels/backend.hpp"
#include "model/stage_tensors.hpp"
#include "protocol/reduction/blocks.hpp"

namespace swarmpi {

class StageGradient {
 public:
  /// What it takes beside the gradient.
  static std::int64_t scratch_bytes(const StageTensors& tensors);

  /// `bits` of a microbatch's integers.
  StageGradient(const StageTensors& tensors, kernels::Backend& backend, int bits);

  /// Only these blocks are ever rounded or placed from now on: there is room for them alone.
  void own(const BlockRange& blocks);

  const std::vector<Block>& blocks() const { return blocks_; }
  /// The gradient of `count` elements of a tensor, from the first of a block on. What it points to
  /// lives until the next reduce(), place() or change of the sums. REQUIRES: all blocks were
  /// reduced or placed since the last step.
  kernels::ReducedGradient of(std::size_t place, std::int64_t first, std::int64_t count);

  // `sums`: of the step, on this peer, all tensors by offset, in the backend's memory. After
  // reduce() without addends they must stay as they are until the gradient is applied. `addends`:
  // those of other peers, over the same blocks.
  PayloadRef share(const std::int64_t* sums, const BlockRange& range,
                   std::span<const PartialSums> addends, PayloadPool& payloads);
  /// Returns the sum of squares of each block.
  std::vector<double> reduce(const std::int64_t* sums, const BlockRange& range,
                             std::span<const PartialSums> addends, const Exponents& exponents,
                             std::int64_t tokens);
  /// The same of `sums` of all peers, that lie in the backend's memory, which are not needed
  /// afterwards.
  std::vector<double> round(const std::int64_t* sums, const BlockRange& range,
                            const Exponents& exponents, std::int64_t tokens);

  // Dense: block after block, on the host. What was never reduced is zero.
  /// Returns hash_of() what is in place then.
  std::uint64_t place(const BlockRange& range, const float* gradient);
  void copy_out(const BlockRange& range, float* gradient) const;
  std::uint64_t hash_of(const BlockRange& range, const float* gradient) const;

  /// Of what is in place. REQUIRES: these blocks were rounded or placed, and are not in the sums.
  std::uint64_t hash_in_place(const BlockRange& range) const;

  /// As if nothing had ever been reduced.
  void clear();
  std::int64_t memory_bytes() const;

 private:
  // Blocks of which what lies in the backend's memory is one stretch, with what lies between
  // tensors: never more than the scratch takes.
  /// Neighbours.
  std::vector<BlockRange> strips_of(const BlockRange& range) const;
  /// Neighbours of one tensor, for which own sums stand, or for none.
  std::vector<BlockRange> runs_of(const BlockRange& range) const;
  template <class Together>
  std::vector<BlockRange> cut(const BlockRange& range, const Together& together) const;
  std::int64_t first_element(const BlockRange& range) const;
  /// From the first to the last, with what lies between tensors.
  std::int64_t elements(const BlockRange& range) const;
  /// For a strip, on the host.
  void* host_room() const;
  void set_in_sums(const BlockRange& range, bool in_sums);
  void set_quanta(const BlockRange& range, const Exponents& exponents, std::int64_t tokens);
  double quantum_per_token(const BlockRange& run) const;
  /// Goes on hashing with the gradient in place.
  std::uint64_t hash_strip(std::uint64_t hash, const BlockRange& strip) const;

  /// Calls visit(place in the range, block, values) with the sums of all peers over each block, on
  /// the host.
  template <class Visit>
  void for_each_block(const std::int64_t* sums, const BlockRange& range,
                      std::span<const PartialSums> addends, const Visit& visit);
  /// Notes that own sums are all there is of these blocks.
  std::vector<double> keep_in_sums(const std::int64_t* sums, const BlockRange& range);
  /// Rounds whole runs of a tensor's blocks, into the room of the gradient or (`keeps`) nowhere.
  std::vector<double> round_tensors(const std::int64_t* sums, const BlockRange& range, bool keeps);
  std::vector<double> add_and_round(const std::int64_t* sums, const BlockRange& range,
                                    std::span<const PartialSums> addends);
  /// Rounds what the sums stand for, into the room of the gradient or elsewhere in the backend's
  /// memory.
  void round_own(const BlockRange& run, float* gradient) const;
  /// The room of the gradient, from this element of all tensors on.
  float* room_at(std::int64_t element);
  std::span<const Block> within(const BlockRange& range) const;
  std::int64_t element(const Block& block) const {
    return tensors_.offset(static_cast<std::size_t>(block.tensor)) + block.first;
  }

  const StageTensors& tensors_;
  kernels::Backend& backend_;
  int bits_;
  std::vector<Block> blocks_;
  std::vector<std::size_t> first_blocks_;       // by place, and one more: their number
  std::vector<bool> in_sums_;                   // by block: own sums stand for it
  const std::int64_t* sums_ = nullptr;          // of which they are blocks
  std::vector<double> quanta_per_token_;        // by place
  mutable std::vector<double> unused_squares_;  // by block
  std::int64_t first_owned_ = 0, end_owned_;    // elements, by offset: those there is room for
  std::unique_ptr<kernels::Memory> gradient_;   // of these; null: none was needed yet
  std::unique_ptr<kernels::Memory> scratch_;    // sums of a strip, or its gradient
  mutable std::shared_ptr<std::byte> host_room_;
};

}  // namespace swarmpi
