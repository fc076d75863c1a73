#include "protocol/reduction/reduction.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/check.hpp"
#include "core/hash.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/reduction_jobs.hpp"
#include "protocol/messages/seal.hpp"

namespace swarmpi {
namespace {

std::uint64_t hash_of(const SharedDoubles& squares) {
  return hash_bytes(squares.data(), squares.size() * sizeof(double));
}

}  // namespace

Reduction::Reduction(ReductionPlan plan, const Reduction* before)
    : plan_(std::move(plan)), chunks_(plan_.chunks.size()) {
  const auto self = std::find(plan_.replicas.begin(), plan_.replicas.end(), plan_.self);
  own_index_ = self == plan_.replicas.end() ? -1 : self - plan_.replicas.begin();
  if (before != nullptr) {
    SWARMPI_CHECK(before->plan_.chunks == plan_.chunks, "a step keeps its chunks over its seals");
    for (std::size_t c = 0; c < chunks_.size(); ++c)
      chunks_[c].squares = before->chunks_[c].squares;
    for (const std::int32_t chunk : before->chunks_in_place()) {
      at(chunk).hash = before->chunks_[static_cast<std::size_t>(chunk)].hash;
      placed(chunk);
    }
  }
  for (std::int64_t c = 0; c < plan_.finished_chunks.size(); ++c) {
    if (!plan_.finished_chunks.contains(c)) continue;
    Chunk& chunk = at(static_cast<std::int32_t>(c));
    chunk.fact = true;
    chunk.reduced = chunk.placed;
  }
  for (const ChunkOrder& order : plan_.to_send) {
    if (!has_owners()) to_gather_.push_back(order.chunk);
  }
  offers_ = order_of_offers();
}

// Chunks next to each other belong to one owner, so it goes from owner to owner. The order is the
// same at all peers: each waits for the results of its first shares before it sends more, and would
// wait for ever for a peer that has begun with other chunks.
std::vector<std::int32_t> Reduction::order_of_offers() const {
  std::vector<std::int32_t> order(chunks_.size());
  std::iota(order.begin(), order.end(), 0);
  if (!has_owners()) return order;
  std::vector<std::int64_t> turns(chunks_.size());
  std::vector<std::int64_t> of_owner(plan_.replicas.size());
  for (const std::int32_t chunk : order) {
    const std::int64_t round = of_owner[static_cast<std::size_t>(owner(chunk))]++;
    turns[static_cast<std::size_t>(chunk)] = round * replicas() + owner(chunk);
  }
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return turns[static_cast<std::size_t>(a)] < turns[static_cast<std::size_t>(b)];
  });
  return order;
}

void Reduction::tell_finished(Outbox& outbox) {
  for (const ChunkOrder& order : plan_.to_send) {
    if (has_owners()) send_finished(order, nullptr, at(order.chunk).hash, outbox);
  }
}

FlatSet<PeerId> Reduction::partners() const {
  FlatSet<PeerId> partners;
  if (plan_.pattern == ReductionPattern::ring && !learns()) {
    partners = {replica_at(own_index_ + replicas() - 1)};
  } else {
    partners.insert(plan_.replicas.begin(), plan_.replicas.end());
  }
  partners.insert(plan_.senders.begin(), plan_.senders.end());
  return partners;
}

std::vector<std::int32_t> Reduction::chunks_in_place() const {
  std::vector<std::int32_t> chunks;
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    if (chunks_[c].placed) chunks.push_back(static_cast<std::int32_t>(c));
  }
  return chunks;
}

std::vector<SharedDoubles> Reduction::squares() const {
  std::vector<SharedDoubles> squares;
  squares.reserve(chunks_.size());
  for (const Chunk& chunk : chunks_) squares.push_back(chunk.squares);
  return squares;
}

std::vector<std::uint64_t> Reduction::chunk_hashes() const {
  std::vector<std::uint64_t> hashes;
  for (const Chunk& chunk : chunks_) hashes.push_back(chunk.hash);
  return hashes;
}

std::uint64_t Reduction::hash() const {
  const std::vector<std::uint64_t> hashes = chunk_hashes();
  const bool alone = std::find(hashes.begin(), hashes.end(), 0) != hashes.end();
  return alone ? 0 : hash_bytes(hashes.data(), hashes.size() * sizeof(std::uint64_t));
}

std::optional<ChunkRefused> Reduction::take_refused() {
  return std::exchange(refused_, std::nullopt);
}

void Reduction::close() {
  closed_ = true;
  for (Chunk& chunk : chunks_) {
    chunk.shares.clear();
    chunk.to_place.reset();
  }
}

// ---- Who sends what to whom

PeerId Reduction::replica_at(std::int64_t index) const {
  return plan_.replicas[static_cast<std::size_t>(index % replicas())];
}

std::int64_t Reduction::awaited(std::int32_t chunk) const {
  if (learns()) return 1;
  if (replicas() == 1 || by_collective()) return 0;
  if (plan_.pattern == ReductionPattern::direct) return owns(chunk) ? replicas() - 1 : 0;
  // Round a ring the replica behind the owner begins, and the sum ends at the owner.
  const bool begins = (owner(chunk) + 1) % replicas() == own_index_;
  return begins ? 0 : 1;
}

PeerId Reduction::onward(std::int32_t chunk) const {
  const bool direct = plan_.pattern == ReductionPattern::direct;
  return replica_at(direct ? owner(chunk) : own_index_ + 1);
}

std::vector<PeerId> Reduction::listeners(std::int32_t chunk) const {
  std::vector<PeerId> peers;
  if (learns()) return peers;
  if (by_collective()) {
    // Each replica rounds all chunks itself.
  } else if (plan_.pattern == ReductionPattern::ring) {
    if ((own_index_ + 1) % replicas() != owner(chunk)) peers.push_back(replica_at(own_index_ + 1));
  } else if (owns(chunk)) {
    // Each owner begins behind itself, so that not all of them send to the same peer at once.
    for (std::int64_t i = 1; i < replicas(); ++i) peers.push_back(replica_at(own_index_ + i));
  }
  if (owns(chunk)) peers.insert(peers.end(), plan_.learners.begin(), plan_.learners.end());
  return peers;
}

// ---- By a collective

void Reduction::collective_is_done(const Cover& cover) {
  if (cover != plan_.all) return refuse(0, cover);
  sums_here_ = true;
}

// ---- Messages

void Reduction::receive(const ShareMessage& message, PeerId from) {
  Chunk& chunk = at(message.chunk);
  if (chunk.fact || chunk.begun || chunk.shares.contains(from)) return;  // arrived twice
  bytes_received_ += size_of(message.sums);
  chunk.shares[from] = {message.sums, message.cover};
  if (static_cast<std::int64_t>(chunk.shares.size()) == awaited(message.chunk)) {
    due_.push_back(message.chunk);
  }
}

void Reduction::receive(const ChunkMessage& message, Outbox& outbox) {
  Chunk& chunk = at(message.chunk);
  if (chunk.reduced) return;  // arrived twice
  bytes_received_ += size_of(message.gradient);
  if (!counts_all(message.chunk, message.cover)) return;
  if (has_owners()) {
    SWARMPI_CHECK(!owns(message.chunk), "an owner finishes its chunks itself");
    if (hash_of(message.squares) != message.hash) return refuse(message.chunk, plan_.all);
  }
  reduced(message.chunk, message.squares);
  // What is in place since an earlier seal may be acknowledged already, and stays.
  if (!chunk.placed) {
    chunk.hash = message.hash;
    if (has_owners()) {
      placed(message.chunk);
    } else {
      chunk.to_place = message.gradient;
      due_.push_back(message.chunk);
    }
  }
  if (!chunk.fact) spread(message.chunk, message, outbox);
}

bool Reduction::counts_all(std::int32_t chunk, const Cover& cover) {
  if (cover == plan_.all) return true;
  refuse(chunk, cover);
  return false;
}

void Reduction::refuse(std::int32_t chunk, const Cover& cover) {
  if (!refused_) refused_ = {plan_.seal, plan_.step, plan_.stage, chunk, cover};
}

void Reduction::reduced(std::int32_t chunk, const SharedDoubles& squares) {
  Chunk& state = at(chunk);
  state.reduced = true;
  if (!state.fact && !learns() && awaited(chunk) == 0) --in_flight_;
  const BlockRange& blocks = plan_.chunks.at(static_cast<std::size_t>(chunk));
  SWARMPI_CHECK(static_cast<std::int64_t>(squares.size()) == blocks.end - blocks.first,
                "a reduced chunk brings one sum of squares a block");
  state.squares = squares;
}

void Reduction::placed(std::int32_t chunk) {
  if (!std::exchange(at(chunk).placed, true)) ++in_place_;
}

void Reduction::spread(std::int32_t chunk, const ChunkMessage& message, Outbox& outbox) {
  for (const PeerId peer : listeners(chunk)) {
    bytes_sent_ += size_of(message.gradient);
    outbox.send(peer, message);
  }
}

// ---- Jobs

std::optional<Job> Reduction::next_job() {
  if (!due_.empty()) {
    const std::int32_t chunk = due_.front();
    due_.pop_front();
    Chunk& state = at(chunk);
    if (!state.reduced) return begin(chunk);
    return PlaceJob{plan_.seal,
                    plan_.step,
                    plan_.stage,
                    chunk,
                    plan_.chunks[static_cast<std::size_t>(chunk)],
                    std::exchange(state.to_place, {})};
  }
  if (!to_gather_.empty()) {
    const std::int32_t chunk = to_gather_.front();
    to_gather_.pop_front();
    return GatherJob{plan_.seal, plan_.step, plan_.stage, chunk,
                     plan_.chunks[static_cast<std::size_t>(chunk)]};
  }
  if (by_collective() && !sums_here_) return std::nullopt;
  while (next_to_offer_ < offers_.size() &&
         (at(offers_[next_to_offer_]).fact || awaited(offers_[next_to_offer_]) > 0)) {
    ++next_to_offer_;
  }
  if (next_to_offer_ == offers_.size() || in_flight_ >= plan_.chunks_in_flight) {
    return std::nullopt;
  }
  ++in_flight_;
  return begin(offers_[next_to_offer_++]);
}

std::optional<Job> Reduction::begin(std::int32_t chunk) {
  Chunk& state = at(chunk);
  state.begun = true;
  std::vector<PartialSums> addends;
  for (auto& [peer, share] : state.shares) addends.push_back(std::move(share));
  state.shares.clear();
  const BlockRange& blocks = plan_.chunks[static_cast<std::size_t>(chunk)];
  if (!owns(chunk) && !by_collective()) {
    return ShareJob{plan_.seal, plan_.step, plan_.stage, chunk, blocks, std::move(addends)};
  }
  return ReduceJob{plan_.seal,      plan_.step,   plan_.stage,
                   chunk,           blocks,       std::move(addends),
                   plan_.exponents, plan_.tokens, !has_owners() && !listeners(chunk).empty(),
                   plan_.collective};
}

void Reduction::finished(const ShareResult& result, Outbox& outbox) {
  const auto& [sums, cover] = result.partial;
  bytes_sent_ += size_of(sums);
  outbox.send(onward(result.chunk),
              ShareMessage{plan_.seal, plan_.stage, result.chunk, cover, sums});
}

void Reduction::finished(const ReduceResult& result, Outbox& outbox) {
  if (!counts_all(result.chunk, result.cover)) return;
  const SharedDoubles squares(result.squares);
  at(result.chunk).hash = has_owners() ? hash_of(squares) : result.hash;
  reduced(result.chunk, squares);
  placed(result.chunk);
  spread(result.chunk,
         ChunkMessage{plan_.seal, plan_.stage, result.chunk, result.cover, squares,
                      at(result.chunk).hash, result.gradient},
         outbox);
}

void Reduction::finished(const PlaceResult& result) {
  if (result.hash != at(result.chunk).hash) return refuse(result.chunk, plan_.all);
  placed(result.chunk);
}

void Reduction::finished(const GatherResult& result, Outbox& outbox) {
  const auto order = std::find_if(plan_.to_send.begin(), plan_.to_send.end(),
                                  [&](const ChunkOrder& o) { return o.chunk == result.chunk; });
  send_finished(*order, result.gradient, result.hash, outbox);
}

void Reduction::send_finished(const ChunkOrder& order, const PayloadRef& gradient,
                              std::uint64_t hash, Outbox& outbox) {
  const SharedDoubles& squares = at(order.chunk).squares;
  for (const PeerId peer : order.to) {
    bytes_sent_ += size_of(gradient);
    outbox.send(peer, ChunkMessage{plan_.seal, plan_.stage, order.chunk, plan_.all, squares, hash,
                                   gradient});
  }
}

std::string Reduction::waiting_for() const {
  if (by_collective() && !sums_here_) {
    return fmt::format("the collective of the replicas of stage {}, for step {}", plan_.stage.value,
                       plan_.step.value);
  }
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const Chunk& chunk = chunks_[c];
    const auto number = static_cast<std::int32_t>(c);
    if (chunk.reduced) continue;
    std::string missing;
    if (!chunk.begun) {
      for (const PeerId peer : plan_.replicas) {
        if (peer != plan_.self && !chunk.shares.contains(peer)) {
          missing += fmt::format(" {}", peer.value);
        }
      }
    }
    return fmt::format("chunk {} of {} of step {} in stage {} from peer {}{}{}", number,
                       chunks_.size(), plan_.step.value, plan_.stage.value,
                       replica_at(owner(number)).value,
                       missing.empty() ? "" : ", no share has come from peer", missing);
  }
  return "";
}

}  // namespace swarmpi
