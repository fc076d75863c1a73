#pragma once
// The all-reduce of one stage's sums among its replicas, for one seal: the share of each chunk goes
// to the chunk's owner as packed integers, the owner rounds to fp32, and the result goes to
// all (a reduce-scatter and an all-gather). Where each replica owns a range of the stage the result
// stays with its owner, and the others hear that it is there: weights are gathered later
// (weight_gather.hpp). A state machine on messages and jobs, without I/O.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cover.hpp"
#include "core/flat_map.hpp"
#include "core/flat_set.hpp"
#include "core/shared_doubles.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/reduction/chunks.hpp"

namespace swarmpi {

/// What a reduction must know of its stage.
struct ReductionPlan {
  SealId seal;
  Step step;
  StageId stage;
  PeerId self;
  std::vector<PeerId> replicas;     // by id
  std::vector<PeerId> learners;     // only get the result; self is here or among the replicas
  std::vector<BlockRange> chunks;   // of the stage's blocks
  std::int64_t chunk_replicas = 0;  // replicas that the chunks were cut for
  Bitmap finished_chunks;           // not summed again, but sent to those that lack them
  std::vector<ChunkOrder> to_send;  // of these
  std::vector<PeerId> senders;      // of these, to this peer
  ReductionPattern pattern = ReductionPattern::direct;
  /// Of each chunk the index of the replica that owns it, and keeps its result; empty where results
  /// go to all.
  std::vector<std::int64_t> owners;
  std::int64_t chunks_in_flight = 8;  // most shares that are sent and whose result is not here
  std::int64_t attempt = 0;           // as in the seal
  /// Replicas round what the collective of this view has added up; nothing: they share their sums.
  std::optional<ViewNumber> collective = {};
  Cover all;  // of the step's microbatches: what each chunk is over
  std::shared_ptr<const Exponents> exponents;
  std::int64_t tokens = 0;
};

class Reduction {
 public:
  /// `before`: the reduction under the last seal of the same step, stage and attempt, cut into the
  /// same chunks: what it has in place is kept.
  explicit Reduction(ReductionPlan plan, const Reduction* before = nullptr);

  const SealId& seal() const { return plan_.seal; }
  Step step() const { return plan_.step; }
  std::int64_t chunk_replicas() const { return plan_.chunk_replicas; }
  std::int64_t attempt() const { return plan_.attempt; }
  std::size_t chunks() const { return chunks_.size(); }
  /// The seal is void: drops what waits to be added. Chunks that are in place stay.
  void close();
  bool closed() const { return closed_; }
  /// Those who send something under this seal; this peer may be among them.
  FlatSet<PeerId> partners() const;
  /// Chunks whose result is in its place.
  std::vector<std::int32_t> chunks_in_place() const;

  const ReductionPlan& plan() const { return plan_; }
  /// Where results stay with their owners: tells those of finished chunks that have not heard. To
  /// be called once.
  void tell_finished(Outbox& outbox);

  // By a collective: its members have all sums of the stage at once, or nothing.
  /// Whether this peer is a member.
  bool by_collective() const { return plan_.collective && !learns(); }
  /// The sums of all are here, and what they are over.
  void collective_is_done(const Cover& cover);
  /// No more chunks are taken from it.
  void collective_is_over() { sums_here_ = false; }

  // A message that arrives twice is ignored.
  void receive(const ShareMessage& message, PeerId from);
  void receive(const ChunkMessage& message, Outbox& outbox);

  /// The next job, which is handed out once: what has come from others first, then chunks that
  /// others lack, then this peer's own shares.
  std::optional<Job> next_job();
  void finished(const ShareResult& result, Outbox& outbox);
  void finished(const ReduceResult& result, Outbox& outbox);
  void finished(const PlaceResult& result);
  void finished(const GatherResult& result, Outbox& outbox);

  /// The whole reduced gradient is in its place, here or with its owners.
  bool complete() const { return in_place_ == static_cast<std::int64_t>(chunks_.size()); }
  /// Of each chunk the sums of squares, one a block. REQUIRES: complete().
  std::vector<SharedDoubles> squares() const;
  /// Of the whole reduced gradient, for a comparison with the other peers'; 0 where this peer alone
  /// has a chunk. Of the squares, where no peer has the whole gradient. REQUIRES: complete().
  std::uint64_t hash() const;
  /// Of each chunk. REQUIRES: complete().
  std::vector<std::uint64_t> chunk_hashes() const;
  /// A chunk whose sums were not over all microbatches, each once, or that was damaged; it is named
  /// once. It is never finished.
  std::optional<ChunkRefused> take_refused();
  /// Bytes of the payloads that were sent to, and received from, other peers.
  std::int64_t bytes_sent() const { return bytes_sent_; }
  std::int64_t bytes_received() const { return bytes_received_; }
  /// The first chunk that is missing and whom it waits for, for messages about stalls; "" if none.
  std::string waiting_for() const;

 private:
  struct Chunk {
    FlatMap<PeerId, PartialSums> shares;  // that have come, until they are added
    bool begun = false;                   // its ShareJob or ReduceJob was handed out
    bool reduced = false;                 // the result is here
    bool placed = false;                  // and in the reduced gradient
    bool fact = false;                    // was finished under an earlier seal
    PayloadRef to_place;                  // the result, where another peer made it
    SharedDoubles squares;                // of the result, one a block; empty before it is here
    std::uint64_t hash = 0;               // of the result; 0: nobody else needs it
  };

  // Who sends what to whom. Replicas are counted in the order of their ids.

  bool has_owners() const { return !plan_.owners.empty(); }
  std::int64_t replicas() const { return static_cast<std::int64_t>(plan_.replicas.size()); }
  /// The replica with this index, modulo their number.
  PeerId replica_at(std::int64_t index) const;
  bool learns() const { return own_index_ < 0; }
  /// Index of the replica that rounds a chunk.
  std::int64_t owner(std::int32_t chunk) const {
    return has_owners() ? plan_.owners[static_cast<std::size_t>(chunk)] : chunk % replicas();
  }
  bool owns(std::int32_t chunk) const { return owner(chunk) == own_index_; }
  /// Shares, or sums of shares, that must come before this peer's is added.
  std::int64_t awaited(std::int32_t chunk) const;
  /// Who gets this peer's share, or the sum up to it. REQUIRES: !owns(chunk).
  PeerId onward(std::int32_t chunk) const;
  /// Who gets the result from this peer.
  std::vector<PeerId> listeners(std::int32_t chunk) const;

  /// Of neighbouring shares not all go to the same owner.
  std::vector<std::int32_t> order_of_offers() const;

  // What becomes of a chunk.

  /// Whether its sums are over all microbatches of the step, each once; if not, it is refused.
  bool counts_all(std::int32_t chunk, const Cover& cover);
  void refuse(std::int32_t chunk, const Cover& cover);
  /// Its ShareJob, or its ReduceJob if this peer owns it, with the shares that have come.
  std::optional<Job> begin(std::int32_t chunk);
  /// Its result is here: notes the squares of its blocks, and that one share less is on its way.
  void reduced(std::int32_t chunk, const SharedDoubles& squares);
  /// Its result is in the reduced gradient.
  void placed(std::int32_t chunk);
  /// Sends a chunk that was finished under an earlier seal to those that lack it.
  void send_finished(const ChunkOrder& order, const PayloadRef& gradient, std::uint64_t hash,
                     Outbox& outbox);
  /// Sends its result to the listeners.
  void spread(std::int32_t chunk, const ChunkMessage& message, Outbox& outbox);
  Chunk& at(std::int32_t chunk) { return chunks_.at(static_cast<std::size_t>(chunk)); }

  ReductionPlan plan_;
  std::int64_t own_index_ = 0;  // of self among the replicas; -1: learns
  std::vector<Chunk> chunks_;
  std::deque<std::int32_t> due_;        // all shares are here, or the result
  std::deque<std::int32_t> to_gather_;  // finished chunks that others lack
  std::vector<std::int32_t> offers_;    // all chunks, in the order in which own shares are sent
  std::size_t next_to_offer_ = 0;       // those before are begun, or begin with other replicas
  std::int64_t in_flight_ = 0;          // begun of these, and the result is not here
  std::int64_t in_place_ = 0;
  bool closed_ = false;
  bool sums_here_ = false;  // of a collective
  std::optional<ChunkRefused> refused_;
  std::int64_t bytes_sent_ = 0;
  std::int64_t bytes_received_ = 0;
};

}  // namespace swarmpi
