#include "protocol/step/checkpoint_rounds.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace swarmpi {
namespace {

// So many replicas are waited for to write one part. Where all hang on one server each costs its
// whole patience.
constexpr int kWritersOfAPart = 2;

}  // namespace

// A peer that leaves the stage would stay for each part that it writes.
std::optional<PeerId> CheckpointRounds::writer_of(Step step, StageId stage, const View& view,
                                                  const Able& able) const {
  const auto tried = tried_.find({stage, step});
  if (tried != tried_.end() && tried->second >= kWritersOfAPart) return std::nullopt;
  for (const auto* const peers : {&view.choices(stage), &view.replicas(stage)}) {
    const auto found = std::find_if(peers->begin(), peers->end(), [&](PeerId peer) {
      return !left_out_.contains({peer, step}) && able(peer, stage);
    });
    if (found != peers->end()) return *found;
  }
  return std::nullopt;
}

std::optional<StageId> CheckpointRounds::lacks_writer(Step step, const View& view,
                                                      const Able& may) const {
  for (std::int32_t s = 0; s < plan_->stages(); ++s) {
    if (!writer_of(step, StageId(s), view, may)) return StageId(s);
  }
  return std::nullopt;
}

CheckpointRounds::Orders CheckpointRounds::begin(const ResumeState& state,
                                                 const StateHashes& hashes, const View& view,
                                                 const Able& may, const Able& able, double now_s) {
  owed_ = false;
  const Step step(state.step);
  std::erase_if(left_out_, [step](const auto& out) { return out.second != step; });
  std::erase_if(tried_, [step](const auto& tried) { return tried.first.second != step; });
  Round& round = rounds_[step] = {state, hashes, now_s, {}, {}};
  const Able both = [&](PeerId peer, StageId stage) {
    return may(peer, stage) && able(peer, stage);
  };
  Orders orders;
  for (std::int32_t s = 0; s < plan_->stages(); ++s) {
    const StageId stage(s);
    std::optional<PeerId> writer = writer_of(step, stage, view, both);
    if (!writer) writer = writer_of(step, stage, view, may);
    round.asked[stage] = writer.value();
    orders.push_back({round.asked[stage], CheckpointMessage{step, stage}});
  }
  return orders;
}

CheckpointRounds::Orders CheckpointRounds::repair(const View& view) {
  Orders orders;
  for (auto& [step, round] : rounds_) {
    for (auto& [stage, peer] : round.asked) {
      if (round.files.contains(stage) || view.serves(peer, stage)) continue;
      peer = view.choices(stage).front();
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
    if (!part.why_not.empty()) cannot_write(from, part.stage, part.step);
    if (round.files.contains(part.stage)) return manifest;
    owed_ = true;  // of another step; or of this one, where no other is to come
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
  if (!round.is_whole()) return manifest;
  manifest = StoreManifest{round.state, {}};
  for (const auto& [stage, file] : round.files) manifest->files.push_back(file);
  return manifest;
}

std::optional<double> CheckpointRounds::durable(Step step, double now_s) {
  const auto round = rounds_.find(step);
  if (round == rounds_.end()) return std::nullopt;
  const double took_s = now_s - round->second.begun_s;
  rounds_.erase(round);
  if (dropped_ && dropped_->step == step) dropped_.reset();
  return took_s;
}

std::optional<PeerId> CheckpointRounds::dropped(Step step, StageId stage, const std::string& why) {
  const auto round = rounds_.find(step);
  if (round == rounds_.end()) return std::nullopt;
  const PeerId writer = round->second.asked.at(stage);
  rounds_.erase(round);
  const int before = dropped_ && dropped_->step == step ? dropped_->lost_parts : 0;
  dropped_ = {step, why, before + 1, false};
  return writer;
}

void CheckpointRounds::cannot_write(PeerId peer, StageId stage, Step step) {
  left_out_.insert({peer, step});
  ++tried_[{stage, step}];
}

void CheckpointRounds::leave_out_the_late(Step step) {
  const auto round = rounds_.find(step);
  if (round == rounds_.end() || round->second.is_whole()) return;  // the manifest is awaited
  for (const auto& [stage, peer] : round->second.asked) {
    if (!round->second.files.contains(stage)) cannot_write(peer, stage, step);
  }
  rounds_.erase(round);
}

void CheckpointRounds::pass_over(Step step, const std::set<PeerId>& silent, const View& view,
                                 const Able& may) {
  const auto round = rounds_.find(step);
  if (round == rounds_.end()) return;
  const Able others = [&](PeerId peer, StageId stage) {
    return !silent.contains(peer) && may(peer, stage);
  };
  const std::size_t before = left_out_.size();
  for (const auto& [stage, peer] : round->second.asked) {
    if (round->second.files.contains(stage) || !silent.contains(peer)) continue;
    if (writer_of(step, stage, view, others)) left_out_.insert({peer, step});
  }
  if (left_out_.size() > before) rounds_.erase(round);
}

void CheckpointRounds::forget_before(Step step) {
  std::erase_if(rounds_, [step](const auto& entry) {
    return entry.first < step && !entry.second.is_whole();
  });
}

void CheckpointRounds::give_up(Step step, const std::string& why) {
  rounds_.erase(step);
  owed_ = false;
  dropped_ = {step, why, 0, true};
}

std::optional<std::string> CheckpointRounds::why_dropped(Step step) const {
  if (!dropped_ || dropped_->step != step) return std::nullopt;
  return dropped_->why;
}

bool CheckpointRounds::worth_another_try(Step step) const {
  return dropped_ && dropped_->step == step && dropped_->lost_parts == 1 && !dropped_->given_up;
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
