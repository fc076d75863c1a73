#pragma once
// The update of one stage where each replica owns a range of it (method "zero_offload"), for one
// committed step: each replica applies the step to the chunks that it owns, and sends their weights
// to the others, chunk by chunk. A state machine on messages and jobs, without I/O.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "core/payload.hpp"
#include "core/status.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/reduction/blocks.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {

struct ReductionPlan;

/// Chunks of an owner that are on their way at most: while one is sent the next is made.
inline constexpr std::int64_t kMostWeightChunks = 2;

class WeightGather {
 public:
  /// `reduction`: of the step, whose chunks and owners are those of its weights.
  WeightGather(const ReductionPlan& reduction, CommitRef record);

  const CommitRef& record() const { return record_; }

  // A message that arrives twice is ignored.
  void receive(const WeightsMessage& message, PeerId from);
  void receive(const WeightsPlaced& message, PeerId from);

  /// The next job, which is handed out once: what has come from others first, then what is to be
  /// sent once more, then the next own chunk, if not too many are on their way.
  std::optional<Job> next_job();
  void finished(const WeightsResult& result, Outbox& outbox);
  /// Errors: failed, where the chunk came damaged once more.
  Status finished(const PlaceWeightsResult& result, Outbox& outbox);

  /// The weights of all chunks are in their place here. Others may still ask for own ones once
  /// more: before the next step is committed they have them.
  bool complete() const { return to_come_ == 0 && updates_due_.empty(); }
  /// The peers from which something must come.
  std::set<PeerId> awaited() const;
  /// The first chunk that is missing and whom it waits for, for messages about stalls.
  std::string waiting_for() const;
  /// Bytes of the payloads that were sent to, and received from, other peers.
  std::int64_t bytes_sent() const { return bytes_sent_; }
  std::int64_t bytes_received() const { return bytes_received_; }

 private:
  /// Of another's chunk.
  enum class Where : std::uint8_t { missing, came, here };
  struct Chunk {
    Where where = Where::missing;
    bool was_damaged = false;
    std::uint64_t hash = 0;
    PayloadRef weights;  // that came and are to be placed
  };

  PeerId owner(std::int32_t chunk) const {
    return replicas_[static_cast<std::size_t>(owners_[static_cast<std::size_t>(chunk)])];
  }
  const BlockRange& blocks(std::int32_t chunk) const {
    return chunk_blocks_[static_cast<std::size_t>(chunk)];
  }

  Step step_;
  StageId stage_;
  PeerId self_;
  std::vector<PeerId> replicas_;
  std::vector<BlockRange> chunk_blocks_;
  std::vector<std::int64_t> owners_;  // of chunks, by index
  CommitRef record_;
  std::vector<Chunk> chunks_;                              // those of others
  std::int64_t to_come_ = 0;                               // of these are not here
  std::deque<std::int32_t> to_place_;                      // have come
  std::deque<std::int32_t> updates_due_;                   // own chunks
  std::optional<std::int32_t> updating_;                   // own; its job was handed out
  std::map<std::int32_t, std::set<PeerId>> on_their_way_;  // own; who has not answered
  std::deque<std::pair<std::int32_t, PeerId>> once_more_;  // own; to be sent again
  std::int64_t bytes_sent_ = 0;
  std::int64_t bytes_received_ = 0;
};

}  // namespace swarmpi
