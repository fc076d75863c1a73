#include "protocol/reduction/weight_gather.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "core/check.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/reduction/reduction.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {

WeightGather::WeightGather(const ReductionPlan& reduction, CommitRef record)
    : step_(reduction.step),
      stage_(reduction.stage),
      self_(reduction.self),
      replicas_(reduction.replicas),
      chunk_blocks_(reduction.chunks),
      owners_(reduction.owners),
      record_(std::move(record)),
      chunks_(chunk_blocks_.size()) {
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const auto chunk = static_cast<std::int32_t>(c);
    if (owner(chunk) == self_) {
      updates_due_.push_back(chunk);
    } else {
      ++to_come_;
    }
  }
}

// ---- Messages

void WeightGather::receive(const WeightsMessage& message, PeerId from) {
  Chunk& chunk = chunks_.at(static_cast<std::size_t>(message.chunk));
  if (chunk.where != Where::missing || from != owner(message.chunk)) return;
  bytes_received_ += size_of(message.weights);
  chunk.where = Where::came;
  chunk.hash = message.hash;
  chunk.weights = message.weights;
  to_place_.push_back(message.chunk);
}

void WeightGather::receive(const WeightsPlaced& message, PeerId from) {
  const auto sent = on_their_way_.find(message.chunk);
  if (sent == on_their_way_.end() || !sent->second.contains(from)) return;
  if (!message.intact) {
    once_more_.emplace_back(message.chunk, from);
    return;
  }
  sent->second.erase(from);
  if (sent->second.empty()) on_their_way_.erase(sent);
}

// ---- Jobs

std::optional<Job> WeightGather::next_job() {
  if (!to_place_.empty()) {
    const std::int32_t chunk = to_place_.front();
    to_place_.pop_front();
    Chunk& state = chunks_[static_cast<std::size_t>(chunk)];
    return PlaceWeightsJob{step_, stage_, chunk, blocks(chunk), std::move(state.weights)};
  }
  if (!once_more_.empty()) {
    const std::int32_t chunk = once_more_.front().first;
    return CopyWeightsJob{step_, stage_, chunk, blocks(chunk)};
  }
  if (updates_due_.empty() || std::ssize(on_their_way_) >= kMostWeightChunks) return std::nullopt;
  const std::int32_t chunk = updates_due_.front();
  updating_ = chunk;
  return UpdateJob{record_, stage_, chunk, blocks(chunk), replicas_.size() > 1};
}

void WeightGather::finished(const WeightsResult& result, Outbox& outbox) {
  const auto send = [&](PeerId peer) {
    bytes_sent_ += size_of(result.weights);
    outbox.send(peer, WeightsMessage{stage_, step_, result.chunk, result.hash, result.weights});
  };
  if (std::exchange(updating_, std::nullopt) != result.chunk) {
    send(once_more_.front().second);
    once_more_.pop_front();
    return;
  }
  updates_due_.pop_front();
  // Each owner begins behind itself, so that not all of them send to the same peer at once.
  const auto self = std::find(replicas_.begin(), replicas_.end(), self_) - replicas_.begin();
  for (std::ptrdiff_t i = 1; i < std::ssize(replicas_); ++i) {
    const PeerId peer = replicas_[static_cast<std::size_t>((self + i) % std::ssize(replicas_))];
    on_their_way_[result.chunk].insert(peer);
    send(peer);
  }
}

Status WeightGather::finished(const PlaceWeightsResult& result, Outbox& outbox) {
  Chunk& chunk = chunks_.at(static_cast<std::size_t>(result.chunk));
  const bool intact = result.hash == chunk.hash;
  if (!intact && chunk.was_damaged) {
    return Status::failed(fmt::format(
        "step {}, stage {}: the weights of chunk {} have come damaged from peer {} to peer {} "
        "twice: this is a fault of the memory or of the network",
        step_.value, stage_.value, result.chunk, owner(result.chunk).value, self_.value));
  }
  chunk.where = intact ? Where::here : Where::missing;
  chunk.was_damaged = !intact;
  to_come_ -= intact ? 1 : 0;
  outbox.send(owner(result.chunk), WeightsPlaced{stage_, step_, result.chunk, intact});
  return {};
}

// ---- What it waits for

std::set<PeerId> WeightGather::awaited() const {
  std::set<PeerId> peers;
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const PeerId from = owner(static_cast<std::int32_t>(c));
    if (from != self_ && chunks_[c].where == Where::missing) peers.insert(from);
  }
  for (const auto& [chunk, silent] : on_their_way_) peers.insert(silent.begin(), silent.end());
  return peers;
}

std::string WeightGather::waiting_for() const {
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const auto chunk = static_cast<std::int32_t>(c);
    if (owner(chunk) == self_ || chunks_[c].where != Where::missing) continue;
    return fmt::format("the weights of chunk {} of {} of step {} in stage {} from peer {}", chunk,
                       chunks_.size(), step_.value, stage_.value, owner(chunk).value);
  }
  if (on_their_way_.empty()) return "";
  return fmt::format("peer {} to have the weights of chunk {} of step {} in stage {}",
                     on_their_way_.begin()->second.begin()->value, on_their_way_.begin()->first,
                     step_.value, stage_.value);
}

}  // namespace swarmpi
