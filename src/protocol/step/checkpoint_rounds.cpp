#include "protocol/step/checkpoint_rounds.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "core/text.hpp"
#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/storage_port.hpp"

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

// What an owner has nobody else can write.
std::vector<PeerId> CheckpointRounds::writers_of(Step step, StageId stage, const View& view,
                                                 const Able& may, const Able& able) const {
  if (plan_->swarm.has_owners()) {
    const auto& owners = view.replicas(stage);
    const bool all = std::all_of(owners.begin(), owners.end(), [&](PeerId peer) {
      return !left_out_.contains({peer, step}) && may(peer, stage);
    });
    return all ? owners : std::vector<PeerId>();
  }
  const Able both = [&](PeerId peer, StageId of) { return may(peer, of) && able(peer, of); };
  std::optional<PeerId> writer = writer_of(step, stage, view, both);
  if (!writer) writer = writer_of(step, stage, view, may);
  return writer ? std::vector{*writer} : std::vector<PeerId>();
}

std::optional<StageId> CheckpointRounds::lacks_writer(Step step, const View& view,
                                                      const Able& may) const {
  for (std::int32_t s = 0; s < plan_->stages(); ++s) {
    if (writers_of(step, StageId(s), view, may, may).empty()) return StageId(s);
  }
  return std::nullopt;
}

bool CheckpointRounds::has_room() const {
  return static_cast<std::int64_t>(rounds_.size()) < plan_->checkpoints_kept;
}

CheckpointRounds::Orders CheckpointRounds::begin(const ResumeState& state,
                                                 const StateHashes& hashes, const View& view,
                                                 const Able& may, const Able& able, double now_s) {
  owed_ = false;
  const Step step(state.step);
  std::erase_if(left_out_, [step](const auto& out) { return out.second != step; });
  std::erase_if(tried_, [step](const auto& tried) { return tried.first.second != step; });
  Round& round = rounds_[step] = {state, hashes, now_s, {}};
  Orders orders;
  for (std::int32_t s = 0; s < plan_->stages(); ++s) {
    const StageId stage(s);
    for (const PeerId writer : writers_of(step, stage, view, may, able)) {
      round.parts.push_back({stage, writer, {}});
      orders.push_back({writer, CheckpointMessage{step, stage}});
    }
  }
  return orders;
}

CheckpointRounds::Orders CheckpointRounds::repair(const View& view) {
  Orders orders;
  if (plan_->swarm.has_owners()) return orders;  // where one is gone all have gone back
  for (auto& [step, round] : rounds_) {
    for (Part& part : round.parts) {
      if (part.stored || view.serves(part.asked, part.stage)) continue;
      part.asked = view.choices(part.stage).front();
      orders.push_back({part.asked, CheckpointMessage{step, part.stage}});
    }
  }
  return orders;
}

Result<std::optional<StoreManifest>> CheckpointRounds::stored(const StageStoredMessage& message,
                                                              PeerId from) {
  std::optional<StoreManifest> manifest;
  const auto found = rounds_.find(message.step);
  if (found == rounds_.end()) return manifest;
  Round& round = found->second;
  Part* const part = find_part(round, message.stage, from);
  if (!message.stored) {
    if (message.why_not.empty()) {
      left_out_.insert({from, message.step});  // its state is that of another step by now
    } else {
      cannot_write(from, message.stage, message.step);
    }
    if (part == nullptr || part->stored) return manifest;
    owed_ = true;  // of another step; or of this one, where no other is to come
    rounds_.erase(found);
    return manifest;
  }
  if (part == nullptr) return manifest;
  const bool sent_twice = part->stored.has_value();
  if (!sent_twice) {
    part->stored = message;
    part->asked = from;
  }
  if (Status right = check(round, message.stage); !right.ok()) return right;
  if (sent_twice) return manifest;
  if (!round.is_whole()) return manifest;
  manifest = StoreManifest{round.state, {}};
  for (const Part& each : round.parts) {
    if (each.stored) manifest->files.push_back(each.stored->file);
  }
  return manifest;
}

CheckpointRounds::Part* CheckpointRounds::find_part(Round& round, StageId stage,
                                                    PeerId from) const {
  const auto found = std::find_if(round.parts.begin(), round.parts.end(), [&](const Part& part) {
    return part.stage == stage && (!plan_->swarm.has_owners() || part.asked == from);
  });
  return found == round.parts.end() ? nullptr : &*found;
}

// A bit may have flipped after the update, whose result the agreed hash describes.
Status CheckpointRounds::check(const Round& round, StageId stage) const {
  const auto agreed = round.hashes.find(stage);
  if (agreed == round.hashes.end()) return {};
  TensorHashes written(agreed->second.size());
  std::set<std::int64_t> writers;
  for (const Part& part : round.parts) {
    if (part.stage != stage) continue;
    if (!part.stored) return {};
    for (std::size_t i = 0; i < written.size(); ++i) written[i] += part.stored->tensor_hashes.at(i);
    writers.insert(part.asked.value);
  }
  if (written == agreed->second) return {};
  return Status::failed(
      fmt::format("checkpoint of step {}: what {} written of stage {} differs from the state that "
                  "all replicas agreed on, in",
                  round.state.step,
                  writers.size() == 1 ? fmt::format("peer {} has", *writers.begin())
                                      : fmt::format("peers {} have", number_list(writers)),
                  stage.value) +
      unequal_tensors(*plan_, stage, {written, agreed->second}) +
      (writers.size() == 1 ? "; check the memory and the disk of its host"
                           : "; check the memory and the disks of their hosts"));
}

bool CheckpointRounds::Round::is_whole() const {
  return std::all_of(parts.begin(), parts.end(),
                     [](const Part& part) { return part.stored.has_value(); });
}

std::optional<double> CheckpointRounds::durable(Step step, double now_s) {
  const auto round = rounds_.find(step);
  if (round == rounds_.end()) return std::nullopt;
  const double took_s = now_s - round->second.begun_s;
  rounds_.erase(round);
  if (dropped_ && dropped_->step == step) dropped_.reset();
  return took_s;
}

std::optional<CheckpointRounds::LostPart> CheckpointRounds::dropped(Step step, std::int64_t file,
                                                                    const std::string& why) {
  const auto round = rounds_.find(step);
  if (round == rounds_.end()) return std::nullopt;
  const Part& part = round->second.parts.at(static_cast<std::size_t>(file));
  const LostPart lost{part.stage, part.asked};
  rounds_.erase(round);
  const int before = dropped_ && dropped_->step == step ? dropped_->lost_parts : 0;
  dropped_ = {step, why, before + 1, false};
  return lost;
}

void CheckpointRounds::cannot_write(PeerId peer, StageId stage, Step step) {
  left_out_.insert({peer, step});
  ++tried_[{stage, step}];
}

void CheckpointRounds::leave_out_the_late(Step step) {
  const auto round = rounds_.find(step);
  if (round == rounds_.end() || round->second.is_whole()) return;  // the manifest is awaited
  for (const Part& part : round->second.parts) {
    if (!part.stored) cannot_write(part.asked, part.stage, step);
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
  for (const Part& part : round->second.parts) {
    if (part.stored || !silent.contains(part.asked)) continue;
    if (!writers_of(step, part.stage, view, others, others).empty()) {
      left_out_.insert({part.asked, step});
    }
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
    return std::any_of(entry.second.parts.begin(), entry.second.parts.end(), [&](const Part& part) {
      return part.stage == stage && part.asked == peer && !part.stored;
    });
  });
}

}  // namespace swarmpi
