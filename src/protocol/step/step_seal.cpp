#include "protocol/step/step_seal.hpp"

#include <algorithm>
#include <utility>

#include "protocol/messages/seal.hpp"

namespace swarmpi {

namespace {

using MessageCounts = std::map<PeerId, std::int64_t>;  // how many messages each holder is to send

/// Those of `holders` that have the least to send take what they can up to an even share; what is
/// left over then they take alike.
void deal_out_chunk(const ChunkFact& chunk, const std::set<PeerId>& holders,
                    std::int64_t even_share, MessageCounts& loads, std::vector<ChunkFact>& dealt) {
  std::vector<PeerId> by_load(holders.begin(), holders.end());
  std::stable_sort(by_load.begin(), by_load.end(),
                   [&](PeerId one, PeerId other) { return loads.at(one) < loads.at(other); });
  auto next = chunk.to.begin();
  for (auto from = by_load.begin(); next != chunk.to.end(); ++from) {
    const std::int64_t left = chunk.to.end() - next, holders_left = by_load.end() - from;
    const std::int64_t least = (left + holders_left - 1) / holders_left;
    std::int64_t& load = loads.at(*from);
    const std::int64_t count = std::min(left, std::max(even_share - load, least));
    std::vector<PeerId>& to =
        dealt.emplace_back(ChunkFact{chunk.chunk, *from, {next, next + count}}).to;
    // Each begins behind itself, so that not all of them send to the same peer at once.
    const auto behind = std::find_if(to.begin(), to.end(), [&](PeerId p) { return p > *from; });
    std::rotate(to.begin(), behind, to.end());
    load += count;
    next += count;
  }
}

}  // namespace

// All wait for whoever has the most to send.
std::vector<ChunkFact> deal_out(const ChunkHolders& holders, const std::vector<PeerId>& wanted_by) {
  std::vector<ChunkFact> chunks;
  MessageCounts loads;
  std::int64_t messages = 0;
  for (const auto& [chunk, having] : holders) {
    ChunkFact& fact = chunks.emplace_back(ChunkFact{chunk, *having.begin(), {}});
    for (const PeerId peer : wanted_by) {
      if (!having.contains(peer)) fact.to.push_back(peer);
    }
    messages += std::ssize(fact.to);
    for (const PeerId holder : having) loads[holder] = 0;
  }
  const auto senders = std::max<std::int64_t>(std::ssize(loads), 1);
  const std::int64_t even_share = (messages + senders - 1) / senders;
  // What few have must come from them; what is left over is levelled by what many have.
  std::stable_sort(chunks.begin(), chunks.end(), [&](const ChunkFact& one, const ChunkFact& other) {
    return holders.at(one.chunk).size() < holders.at(other.chunk).size();
  });
  std::vector<ChunkFact> dealt;
  for (ChunkFact& chunk : chunks) {
    if (chunk.to.empty()) {
      dealt.push_back(std::move(chunk));
    } else {
      deal_out_chunk(chunk, holders.at(chunk.chunk), even_share, loads, dealt);
    }
  }
  std::stable_sort(dealt.begin(), dealt.end(), [](const ChunkFact& one, const ChunkFact& other) {
    return one.chunk < other.chunk;
  });
  return dealt;
}

void StepSeal::add(SealedStage stage) {
  std::map<PeerId, std::set<PeerId>>& senders = senders_.emplace_back();
  for (const ChunkFact& fact : stage.finished) {
    for (const PeerId peer : fact.to) senders[peer].insert(fact.from);
  }
  stages_.push_back(std::move(stage));
}

SealMessage StepSeal::message_for(PeerId peer) const {
  const auto named = [peer](const std::vector<PeerId>& by_id) {
    return std::binary_search(by_id.begin(), by_id.end(), peer);
  };
  SealMessage message{step_, {}, skipped_, facts_};
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (!named(stages_[i].replicas) && !named(stages_[i].learners)) continue;
    message.stages.push_back(part_of(peer, i));
  }
  return message;
}

StageSeal StepSeal::part_of(PeerId peer, std::size_t index) const {
  const SealedStage& sealed = stages_[index];
  StageSeal part;
  part.stage = sealed.stage;
  part.seal = sealed.seal;
  part.replicas = sealed.replicas;
  part.learners = sealed.learners;
  part.chunk_replicas = sealed.chunk_replicas;
  part.attempt = sealed.attempt;
  part.collective = sealed.collective;
  const auto share = std::lower_bound(
      sealed.shares.begin(), sealed.shares.end(), peer,
      [](const SealShare& of_peer, PeerId wanted) { return of_peer.peer < wanted; });
  if (share != sealed.shares.end() && share->peer == peer) part.microbatches = share->microbatches;
  if (sealed.finished.empty()) return part;
  part.finished_chunks = Bitmap(sealed.chunks);
  for (const ChunkFact& fact : sealed.finished) {
    part.finished_chunks.insert(fact.chunk);
    if (fact.from == peer && !fact.to.empty()) part.to_send.push_back({fact.chunk, fact.to});
  }
  const auto senders = senders_[index].find(peer);
  if (senders != senders_[index].end()) {
    part.senders.assign(senders->second.begin(), senders->second.end());
  }
  return part;
}

}  // namespace swarmpi
