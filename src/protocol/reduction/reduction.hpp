#pragma once
// The all-reduce of one stage's sums among its replicas, for one seal: shares of each chunk travel
// to its owner as packed integers, the owner rounds once to fp32, and the result goes to all. A
// state machine on messages and jobs, so it is simulated and recovers like all of the protocol.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/messages/outbox.hpp"
#include "protocol/messages/ports.hpp"
#include "protocol/reduction/chunks.hpp"

namespace swarmpi {

/// What a reduction must know of its stage.
struct ReductionPlan {
  SealId seal;
  Step step;
  StageId stage;
  PeerId self;
  std::vector<PeerId> replicas;     // by id
  std::vector<PeerId> learners;     // only get what was reduced; self is here or among the replicas
  std::vector<BlockRange> chunks;   // of the stage's blocks
  std::int64_t chunk_replicas = 0;  // replicas that the chunks were cut for
  std::vector<ChunkFact> facts;     // chunks that are not summed again, but passed on
  ReductionPattern pattern = ReductionPattern::direct;
  std::int64_t chunks_in_flight = 8;  // shares on their way whose result is not here yet
  std::shared_ptr<const Exponents> exponents;
  std::int64_t tokens = 0;
};

class Reduction {
 public:
  /// `before`: what came of the last seal of the same step and stage, cut into the same chunks.
  explicit Reduction(ReductionPlan plan, const Reduction* before = nullptr);

  const SealId& seal() const { return plan_.seal; }
  Step step() const { return plan_.step; }
  std::int64_t chunk_replicas() const { return plan_.chunk_replicas; }
  std::size_t chunks() const { return chunks_.size(); }
  /// The seal is void: nothing more is done or heard under it. What is in place stays.
  void close();
  bool closed() const { return closed_; }
  /// Those who send something, this peer among them.
  std::set<PeerId> partners() const;
  /// Chunks whose result is in its place.
  std::vector<std::int32_t> chunks_in_place() const;

  // Messages may arrive twice.
  void receive(const ShareMessage& message, PeerId from);
  void receive(const ChunkMessage& message, Outbox& outbox);

  /// What can be computed next; what others wait for goes first. Each is handed out once.
  std::optional<Job> next_job();
  void finished(const ShareResult& result, Outbox& outbox);
  void finished(const ReduceResult& result, Outbox& outbox);
  void finished(const PlaceResult& result);
  void finished(const GatherResult& result, Outbox& outbox);

  /// The whole reduced gradient is in its place.
  bool complete() const { return in_place_ == static_cast<std::int64_t>(chunks_.size()); }
  /// Sum of squares, one a block. REQUIRES: complete().
  const std::vector<double>& squares() const { return squares_; }
  /// Bytes of payloads that went to, and came from, other peers.
  std::int64_t bytes_sent() const { return bytes_sent_; }
  std::int64_t bytes_received() const { return bytes_received_; }
  std::string waiting_for() const;

 private:
  struct Chunk {
    std::map<PeerId, PayloadRef> shares;  // that came, until they are added
    std::set<PeerId> heard;               // whose shares have come
    bool begun = false;                   // its share or its rounding was handed out
    bool reduced = false;                 // the result is here
    bool placed = false;                  // and in its place
    bool fact = false;                    // was finished under an earlier seal
    PayloadRef to_place;                  // the result, where another peer made it
  };

  std::int64_t owner(std::int32_t chunk) const { return chunk % replicas(); }
  bool learns() const { return place_ < 0; }
  bool owns(std::int32_t chunk) const { return owner(chunk) == place_; }
  /// Shares, or sums of shares, that must come before this peer's is added.
  std::int64_t awaited(std::int32_t chunk) const;
  /// Who gets this peer's share, or the sum up to it. REQUIRES: !owns(chunk).
  PeerId onward(std::int32_t chunk) const;
  /// Who gets the result from this peer.
  std::vector<PeerId> listeners(std::int32_t chunk) const;
  std::optional<Job> begin(std::int32_t chunk);
  void placed(std::int32_t chunk);
  void reduced(std::int32_t chunk, const std::vector<double>& squares);
  void spread(std::int32_t chunk, const ChunkMessage& message, Outbox& outbox);
  PeerId at_place(std::int64_t place) const;
  std::int64_t replicas() const { return static_cast<std::int64_t>(plan_.replicas.size()); }
  Chunk& at(std::int32_t chunk) { return chunks_.at(static_cast<std::size_t>(chunk)); }

  ReductionPlan plan_;
  std::int64_t place_ = 0;  // of self among the replicas; -1: learns
  std::vector<Chunk> chunks_;
  std::deque<std::int32_t> due_;        // all shares are here, or the result
  std::deque<std::int32_t> to_gather_;  // facts that others lack
  std::int32_t next_to_offer_ = 0;      // chunks below are offered, or begin with others
  std::int64_t in_flight_ = 0;          // offered, and the result is not here
  std::int64_t in_place_ = 0;
  bool closed_ = false;
  std::vector<double> squares_;
  std::int64_t bytes_sent_ = 0;
  std::int64_t bytes_received_ = 0;
};

}  // namespace swarmpi
