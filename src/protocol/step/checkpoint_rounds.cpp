#include "protocol/step/checkpoint_rounds.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace swarmpi {
namespace {

// A peer that leaves the stage would stay for each part that it writes.
PeerId writer_of(StageId stage, const View& view) { return view.choices(stage).front(); }

}  // namespace

CheckpointRounds::Orders CheckpointRounds::begin(const ResumeState& state,
                                                 const StateHashes& hashes, const View& view,
                                                 double now_s) {
  owed_ = false;
  const Step step(state.step);
  Round& round = rounds_[step] = {state, hashes, now_s, {}, {}};
  Orders orders;
  for (std::int32_t s = 0; s < plan_->stages(); ++s) {
    const StageId stage(s);
    round.asked[stage] = writer_of(stage, view);
    orders.push_back({round.asked[stage], CheckpointMessage{step, stage}});
  }
  return orders;
}

CheckpointRounds::Orders CheckpointRounds::repair(const View& view) {
  Orders orders;
  for (auto& [step, round] : rounds_) {
    for (auto& [stage, peer] : round.asked) {
      if (round.files.contains(stage) || view.serves(peer, stage)) continue;
      peer = writer_of(stage, view);
      orders.push_back({peer, CheckpointMessage{step, stage}});
    }
  }
  return orders;
}

Result<std::optional<StoreManifest>> CheckpointRounds::stored(const StageStoredMessage& part,
                                                              PeerId from) {
  std::optional<StoreManifest> manifest;
  const auto found = rounds_.find(part.step);
  if (found == rounds_.end()) return manifest;
  Round& round = found->second;
  if (!part.stored) {
    if (round.files.contains(part.stage)) return manifest;
    owed_ = true;
    rounds_.erase(found);
    return manifest;
  }
  // A bit may have flipped after the update, whose result the agreed hash describes.
  const auto agreed = round.hashes.find(part.stage);
  if (agreed != round.hashes.end() && agreed->second != part.tensor_hashes) {
    return Status::failed(
        fmt::format("checkpoint of step {}: what peer {} has written of stage {} differs from the "
                    "state that all replicas agreed on, in",
                    part.step.value, from.value, part.stage.value) +
        unequal_tensors(*plan_, part.stage, {part.tensor_hashes, agreed->second}) +
        "; check the memory and the disk of its host");
  }
  if (!round.files.try_emplace(part.stage, part.file).second) return manifest;  // sent twice
  round.asked[part.stage] = from;
  if (static_cast<std::int64_t>(round.files.size()) < plan_->stages()) return manifest;
  manifest = StoreManifest{round.state, {}};
  for (const auto& [stage, file] : round.files) manifest->files.push_back(file);
  return manifest;
}

std::optional<double> CheckpointRounds::durable(Step step, double now_s) {
  const auto round = rounds_.find(step);
  if (round == rounds_.end()) return std::nullopt;
  const double took_s = now_s - round->second.begun_s;
  rounds_.erase(round);
  return took_s;
}

std::optional<PeerId> CheckpointRounds::dropped(Step step, StageId stage, const std::string& why) {
  const auto round = rounds_.find(step);
  if (round == rounds_.end()) return std::nullopt;
  const PeerId writer = round->second.asked.at(stage);
  rounds_.erase(round);
  dropped_ = {step, why};
  return writer;
}

std::optional<std::string> CheckpointRounds::why_dropped(Step step) const {
  if (!dropped_ || dropped_->first != step) return std::nullopt;
  return dropped_->second;
}

std::optional<Step> CheckpointRounds::awaited() const {
  return rounds_.empty() ? std::nullopt : std::optional(rounds_.begin()->first);
}

bool CheckpointRounds::awaits(PeerId peer, StageId stage) const {
  return std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& entry) {
    const auto asked = entry.second.asked.find(stage);
    return asked != entry.second.asked.end() && asked->second == peer &&
           !entry.second.files.contains(stage);
  });
}

}  // namespace swarmpi
