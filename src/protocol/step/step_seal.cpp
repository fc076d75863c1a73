#include "protocol/step/step_seal.hpp"

#include <algorithm>
#include <utility>

namespace swarmpi {

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
